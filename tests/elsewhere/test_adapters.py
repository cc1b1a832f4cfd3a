"""Rewards of the adapters against the verdicts of this house, and what is said about rows and judges that fail."""

import importlib.util
import json
import logging
import os
import subprocess
import sys
from urllib.parse import quote

import httpx
import pytest

from ratchet.verifiers.adapters import openrlhf, trl, verl
from ratchet.verifiers.adapters.rewards import Rewards
from ratchet.verifiers.domain import Domain
from ratchet.verifiers.domains import OWN_DOMAINS
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.protocol import TOKEN_VARIABLE
from ratchet.verifiers.serving.rows import encode, without_end
from tests.elsewhere.pairs import pairs, rewards_at_home
from tests.verifiers.conftest import TOKEN, serve  # noqa: F401

needs_puzzles = pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is None, reason="no reasoning-gym")
HALF = encode(Problem.of("math", answer="1/2"))
STEPS = Problem.of("code", tests=[{"input": f"{n}\n", "output": f"{n % 3}\n"} for n in range(4)])
THREE_OF_FOUR = "```python\nprint(input())\n```"


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Pairs, and their rewards at home."""
    made = pairs(tmp_path_factory.mktemp("puzzles"))
    return made, rewards_at_home(made)


def all_adapters(made, servers):
    """The rewards of the same pairs by each adapter that is a function."""
    rows, responses = [encode(problem) for problem, _ in made], [response for _, response in made]
    chats = [[{"role": "assistant", "content": response}] for response in responses]
    reward = trl.reward_function(servers=servers)
    extra, nothing = [{"ratchet_problem": row} for row in rows], [""] * len(rows)
    one_by_one = zip(responses, extra, strict=True)
    return {
        "trl, text": reward(nothing, responses, ratchet_problem=rows),
        "trl, chat": reward(nothing, chats, ratchet_problem=rows),
        "verl, batch": verl.compute_scores(nothing, responses, nothing, extra, servers=servers),
        "verl, one": [verl.compute_score("", text, "", about, servers=servers) for text, about in one_by_one],
    }


@needs_puzzles
@pytest.mark.slow
def test_rewards_are_those_at_home(judged):
    made, rewards = judged
    assert len(made) >= 2000 and {problem.domain for problem, _ in made} == {
        "math", "code", "science", "instructions", "logic",
    }  # fmt: skip
    assert 0.3 < sum(rewards) / len(rewards) < 0.7 and any(0 < reward < 1 for reward in rewards)
    for name, own in all_adapters(made, "").items():
        assert own == rewards, name


@needs_puzzles
@pytest.mark.slow
def test_rewards_of_a_reward_server_are_those_at_home(judged, serve, monkeypatch):  # noqa: F811
    made, rewards = judged
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    server = serve()
    for name, own in all_adapters(made[::5], server.url).items():
        assert own == rewards[::5], name
    address = server.url.replace("://", f"://ratchet:{quote(TOKEN)}@") + "/v1/openrlhf"
    rows, texts = [encode(problem) for problem, _ in made], [f"Q: {response}</s>" for _, response in made]
    for first in range(0, len(made), 500):
        part = slice(first, first + 500)
        body = {"query": texts[part], "prompts": ["Q: "] * len(texts[part]), "labels": rows[part]}
        reply = httpx.post(address, content=json.dumps(body), timeout=None).json()
        assert reply["rewards"] == reply["scores"] == rewards[part]


def test_a_few_rewards_and_fractions():
    rows = [HALF, encode(STEPS), encode(STEPS)]
    responses = ["\\boxed{0.5}", THREE_OF_FOUR, "```python\nprint(int(input()) % 3)\n```"]
    choices = [["A", "B"]] * 3  # a column of the data set, of any name
    assert trl.ratchet_reward(None, responses, ratchet_problem=rows, options=choices) == [1.0, 0.0, 1.0]
    assert trl.reward_function(graded="code")(None, responses, ratchet_problem=rows) == [1.0, 0.75, 1.0]
    assert verl.compute_score("", THREE_OF_FOUR, "", {"ratchet_problem": rows[1]}, graded="code") == 0.75
    parts = [
        [{"role": "assistant", "content": [{"type": "text", "text": "\\boxed{"}, {"type": "text", "text": "0.5}"}]}]
    ]
    assert trl.ratchet_reward(None, parts, ratchet_problem=[HALF]) == [1.0]


def test_a_response_that_begins_in_the_prompt_is_judged_whole():
    thinking = encode(Problem.of("math", answer="1/2"), "<think>\n")
    responses = ["so \\boxed{0.5}", "so</think> \\boxed{0.5}"]
    assert trl.ratchet_reward(None, responses, ratchet_problem=[thinking] * 2) == [0.0, 1.0]


@pytest.mark.parametrize(
    "end", ["", "<|im_end|>", "\n<|im_end|>\n", "</s>", "<｜end▁of▁sentence｜>", "<|eot_id|><|pad|>"]
)
def test_special_tokens_at_the_end_are_no_part_of_a_response(end):
    program = "```python\nprint(int(input()) % 3)\n```"
    reply = openrlhf.reward_func([f"<|user|>Q<|assistant|>{program}{end}"], ["<|user|>Q<|assistant|>"], [encode(STEPS)])
    assert reply == {"rewards": [1.0], "scores": [1.0], "extra_logs": {}}
    for text in ("<answer>4</answer>", "4 \n", "", "<pad> x"):
        assert without_end(text) == text
    assert without_end("4 <pad>\n" * 3) == "4 <pad>\n4 <pad>\n4"
    blank = "a" + "\n" * 400_000  # read once, not once for each line
    assert (without_end(blank + "b"), without_end(f"{blank}<eos>")) == (blank + "b", "a")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"answer": "1"}', "names no domain"),
        ("What is 1 + 1?", "is not JSON text"),
        (None, "is not JSON text"),
        ('{"domain": "maths", "answer": "1"}', "no domain 'maths'. Did you mean 'math'?"),
        ('{"domain": "math", "answer": 1}', "the field answer of its ratchet_problem must be text"),
        ('{"domain": "math", "solution": "1"}', "unknown field 'solution'"),
    ],
)
def test_a_row_that_cannot_be_judged_is_told_in_one_line(row, message):
    with pytest.raises(RatchetError) as error:
        trl.ratchet_reward(None, ["a", "b"], ratchet_problem=[HALF, row])
    assert str(error.value).startswith("Row 1 of the batch cannot be judged: ") and message in str(error.value)
    assert "\n" not in str(error.value)


def test_tests_and_metadata_may_be_lists_and_objects():
    row = json.dumps({"domain": "code", "tests": [{"input": "2\n", "output": "2"}], "metadata": {"unit": "km"}})
    assert trl.ratchet_reward(None, [THREE_OF_FOUR], ratchet_problem=[row]) == [1.0]


def test_a_column_that_is_missing_is_told_with_its_command():
    with pytest.raises(RatchetError, match="ratchet export problems --format trl"):
        trl.ratchet_reward(None, ["a"])
    with pytest.raises(RatchetError, match="ratchet export problems --format verl"):
        verl.compute_score("", "a", "", {"index": 0})
    with pytest.raises(RatchetError, match="does not begin with its prompt"):
        openrlhf.reward_func(["ion? \\boxed{0.5}"], ["Question? "], [HALF])


def test_an_adapter_without_its_server_says_so(monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    with pytest.raises(RatchetError, match=r"No reward server answers \(http://127.0.0.1:9") as error:
        trl.reward_function(servers="http://127.0.0.1:9")(None, ["a"], ratchet_problem=[HALF])
    assert "\n" not in str(error.value)


class Broken(Domain):
    """A domain with a bug, which is no fault of the response."""

    name = "broken"
    templates = {"broken": "{prompt}"}
    isolation = "inline"

    def score(self, problem, answer):
        raise ZeroDivisionError("a bug")


def test_what_was_not_judged_is_no_reward_of_zero(monkeypatch, caplog):
    monkeypatch.setenv(OWN_DOMAINS, "tests.elsewhere.test_adapters:Broken")
    rows = [HALF, encode(Problem.of("broken", answer="1")), HALF]
    responses, printed = ["\\boxed{1/2}", "<answer>1</answer>", "\\boxed{2}"], {}
    rewards = Rewards()
    with caplog.at_level(logging.WARNING, "ratchet"):
        assert rewards(rows, responses) == [1.0, None, 0.0]
        assert "1 of 3 responses were not judged" in caplog.text and "ZeroDivisionError: a bug" in caplog.text
    assert rewards(rows[:1], responses[:1]) == [1.0] and (rewards.judged, rewards.infra_errors) == (4, 1)
    assert trl.ratchet_reward(None, responses, ratchet_problem=rows, log_metric=printed.__setitem__) == [1.0, None, 0.0]
    assert printed == {"ratchet/infra_errors": 1.0}
    with pytest.raises(RatchetError, match=r"1 of 1 responses were not judged, .* \(1 of 1 so far\)"):
        verl.compute_score("", responses[1], "", {"ratchet_problem": rows[1]}, workers=1)
    with pytest.raises(RatchetError, match="no reward of zero"):
        openrlhf.reward_func([responses[1]], [""], [rows[1]])


def test_a_problem_that_nobody_can_solve_is_told(caplog):
    with caplog.at_level(logging.WARNING, "ratchet"):
        assert trl.ratchet_reward(None, ["\\boxed{1}"], ratchet_problem=['{"domain": "math"}']) == [0.0]
    assert "no response can earn a reward: problem " in caplog.text and "has no reference answer" in caplog.text


def test_adapters_work_after_a_fork():
    rewards = Rewards(workers=1)
    assert rewards([encode(STEPS)], [THREE_OF_FOUR]) == [0.0]
    if not (child := os.fork()):
        os._exit(0 if rewards([encode(STEPS)], [THREE_OF_FOUR]) == [0.0] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_importing_the_adapters_imports_no_trainer():
    heavy = "torch, transformers, trl, verl, openrlhf, nemo_rl, open_instruct, ray, httpx, datasets, ratchet.infra"
    code = f"""
import sys
from ratchet.verifiers.adapters import nemo_rl, open_instruct, openrlhf, prime_rl, trl, verl
loaded = [name for name in {heavy!r}.split(", ") if name in sys.modules]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("authorization", ["", "Basic cmF0Y2hldDp3cm9uZw=="])
def test_the_rewards_of_a_server_want_its_token(serve, authorization):  # noqa: F811
    server = serve()
    reply = httpx.post(server.url + "/v1/openrlhf", json={}, headers={"Authorization": authorization})
    assert reply.status_code == 401


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"query": ["Qa"], "prompts": ["Q"]}, "labels"),
        ({"query": ["a"], "prompts": ["Q"], "labels": [HALF]}, "does not begin with its prompt"),
        ({"query": ["Qa"], "prompts": ["Q"], "labels": ["4"]}, "names no domain"),
        ({"query": ["Qa", "Qb"], "prompts": ["Q"], "labels": [HALF]}, "zip"),
    ],
)
def test_a_request_for_rewards_is_told_what_is_wrong(serve, body, reason):  # noqa: F811
    reply = httpx.post(serve().url + "/v1/openrlhf", json=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert reply.status_code == 400 and reason in reply.json()["error"]


def test_options_and_rows_are_checked_with_a_word_of_what_is_wrong(monkeypatch):
    with pytest.raises(RatchetError, match="Unknown option 'strict'; known: servers"):
        trl.reward_function(strict=True)
    real = importlib.util.find_spec
    missing = lambda name, *rest: None if name == "math_verify" else real(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", missing)
    with pytest.raises(RatchetError, match=r"./verifiers\[math-verify\]"):
        trl.reward_function(either=True)
    with pytest.raises(RatchetError, match=r"Row 0 .* is not JSON text but a dict"):
        trl.ratchet_reward([""], ["\\boxed{1}"], [{"domain": "math", "answer": "1"}])  # pyright: ignore
