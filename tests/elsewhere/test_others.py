"""The parts of OpenRLHF, NeMo RL and open-instruct that ask for rewards, over what we export."""

import json
from urllib.parse import quote

import pytest

from ratchet.verifiers.adapters import openrlhf
from ratchet.verifiers.problem import Problem
from tests.elsewhere.conftest import PROBLEMS
from tests.elsewhere.pairs import rewards_at_home
from tests.verifiers.conftest import TOKEN, serve  # noqa: F401

pytestmark = pytest.mark.slow
RESPONSES = {
    "math": ["so \\boxed{4}", "\\boxed{2}", "four"],
    "code": ["```python\nprint(int(input()) + 2)\n```", "```python\nprint(0)\n```"],
    "instructions": ["No comma here.", "A comma, here."],
    "science": ["\\boxed{B}", "\\boxed{A}"],
}


@pytest.fixture
def asked(tmp_path):
    """Pairs of row and response as JSON lines, and their rewards at home."""
    pairs = [(n, text) for n, problem in enumerate(PROBLEMS) for text in RESPONSES[problem.domain]]
    rewards = rewards_at_home([(PROBLEMS[n], text) for n, text in pairs])
    assert 0.1 < sum(rewards) / len(rewards) < 0.8
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(json.dumps({"row": n, "response": text}) for n, text in pairs))
    return file, rewards


@pytest.mark.parametrize("way", ["function", "server"])
def test_openrlhf_gets_its_rewards_from_a_file_or_a_server(peer, exported, asked, serve, way):  # noqa: F811
    file, rewards = asked
    url = openrlhf.__file__
    if way == "server":
        url = serve().url.replace("://", f"://ratchet:{quote(TOKEN)}@") + "/v1/openrlhf"
    printed = peer("openrlhf", "openrlhf_client.py", exported("openrlhf"), file, url)
    assert printed["rows"] == len(PROBLEMS)
    assert [reward[0] for reward in printed["rewards"]] == rewards


def test_openrlhf_has_no_reward_where_there_is_none(peer, exported, asked, tmp_path):
    rows = tmp_path / "one.jsonl"
    rows.write_text(json.dumps({"row": 0, "response": "\\boxed{4}"}))
    file = exported("openrlhf", [Problem.of("math", "Q", answer="4")])
    printed = peer("openrlhf", "openrlhf_client.py", file, rows, "http://127.0.0.1:9/v1/openrlhf")
    assert printed["rewards"] == [None]


def test_nemo_rls_environment(peer, exported, asked):
    file, rewards = asked
    printed = peer("nemo_rl", "nemo_rl_step.py", exported("nemo-rl"), file)
    assert printed["rewards"] == rewards and printed["ends"] == [1.0] * len(rewards)
    assert printed["accuracy"] == pytest.approx((sum(rewards) - rewards[0]) / len(rewards))


def test_open_instructs_verifier(peer, exported, asked):
    file, rewards = asked
    printed = peer("open_instruct", "open_instruct_verifier.py", exported("open-instruct"), file)
    assert printed["rewards"] == rewards and "objective/ratchet_correct_rate" in printed["metrics"]
