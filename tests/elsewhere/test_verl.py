"""verl's own classes over what we export."""

import json

import pytest

from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.elsewhere.pairs import pairs


@pytest.mark.slow
def test_verls_reward_managers_give_the_rewards_of_this_house(peer, exported, tmp_path):
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    made = pairs(tmp_path)
    with VerifierPool() as pool:
        verdicts = pool.verify(made)
    rewards = [
        verdict.fraction if domain_of(problem.domain).reward == "graded" else float(verdict.passed)
        for (problem, _), verdict in zip(made, verdicts, strict=True)
    ]
    file = exported("verl", [problem for problem, _ in made])
    asked = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"row": number, "response": response}) for number, (_, response) in enumerate(made)]
    asked.write_text("\n".join(lines))
    told = peer("verl", "verl_rewards.py", file, asked)
    assert told["rows"] == len(made) >= 2000 and told["manager"] == "NaiveRewardManager"
    assert told["one"] == rewards
    assert told["batch"] == pytest.approx(rewards)
