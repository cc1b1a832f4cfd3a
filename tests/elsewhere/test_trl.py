"""TRL's own GRPOTrainer with our rewards."""

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("prompts", ["chat", "plain"])
def test_trl_trains_on_an_export(peer, exported, prompts):
    told = peer("trl", "trl_steps.py", exported("trl"), prompts)
    assert told["steps"] == 3 and told["parameters"] < 10_000
    assert {domain for domain, _ in told["seen"]} >= {"math", "code"} and len(told["seen"]) == 24
    assert all(isinstance(reward, float) for _, reward in told["seen"])
    assert "rewards/ratchet_reward/mean" in told["logged"] and told["errors"] == [0.0] * 3
