"""Every term of the loss against a slow reference: full logits in float64, one response and one token at a time."""

import copy
import math

import numpy as np
import pytest
import torch

from ratchet.infra.recipe.stage import SequenceImportance
from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.training.checkpoint import Checkpoints
from ratchet.training.groups import soft_overlong
from ratchet.training.logprobs import TILES
from ratchet.training.losses.grpo import clip_fraction, clipped
from ratchet.training.losses.terms import adapted_entropy_coefficient, kl
from tests.training.batch import gradient, groups, largest_difference, learner, moved, stage


def slow_loss(model, reference, batch, settings, temperature: float) -> torch.Tensor:
    """The loss of one optimizer step, from the definitions."""
    total = torch.zeros((), dtype=torch.float64)
    tokens = sum(len(r.response) for g in batch for r, ok in zip(g.rollouts, g.valid, strict=True) if ok)
    responses = sum(sum(g.valid) for g in batch)
    for members in batch:
        judged = [reward for reward, ok in zip(members.rewards, members.valid, strict=True) if ok]
        mean = math.fsum(judged) / len(judged)
        deviation = math.sqrt(math.fsum((r - mean) ** 2 for r in judged) / len(judged))
        for i, rollout in enumerate(members.rollouts):
            if not members.valid[i]:
                continue
            advantage = 0.0 if deviation < 1e-8 else (members.rewards[i] - mean) / (deviation + 1e-6)
            ids = torch.tensor([*rollout.prompt.tolist(), *rollout.response.tolist()])
            divided_by = {
                "grpo": tokens, "cispo": tokens, "dr_grpo": responses * settings.max_response_tokens,
                "gspo": responses * len(rollout.response),
            }[settings.loss]  # fmt: skip
            distribution = (model(input_ids=ids[None]).logits[0] / temperature).log_softmax(-1)
            if reference is not None:
                with torch.no_grad():
                    other = (reference(input_ids=ids[None]).logits[0] / temperature).log_softmax(-1)
            first = len(rollout.prompt)
            own = distribution[range(first - 1, len(ids) - 1), ids[first:]]
            before = own.detach()
            if members.old_logprobs is not None:
                before = torch.tensor(members.old_logprobs[i], dtype=torch.float64)
            for t, (token, old) in enumerate(zip(own, before, strict=True)):
                place = first + t
                ratio = ((own - before).mean() if settings.loss == "gspo" else token - old).exp()
                clipped = min(max(ratio, torch.tensor(1 - settings.clip_low)), torch.tensor(1 + settings.clip_high))
                objective = ratio * advantage
                if settings.updates_per_batch > 1:
                    objective = min(ratio * advantage, clipped * advantage)
                if settings.loss == "cispo":
                    objective = clipped.detach() * advantage * token
                if settings.importance_cap is not None:
                    log_weight, cap = old - float(rollout.logprobs[t]), settings.importance_cap
                    if settings.loss == "gspo":  # π_old / π_engine of the response, as its ratio is
                        log_weight = sum(float(before[n]) - float(rollout.logprobs[n]) for n in range(len(own)))
                        log_weight /= len(own)
                    if isinstance(cap, SequenceImportance):
                        geometric = float((before - torch.tensor(rollout.logprobs, dtype=torch.float64)).mean().exp())
                        inside = cap.sequence[0] <= geometric <= cap.sequence[1]
                        if cap.outside == "truncate":
                            objective = objective * min(max(geometric, cap.sequence[0]), cap.sequence[1])
                        elif cap.tokens is None or not inside:
                            objective = objective * geometric * inside
                        cap = cap.tokens if inside else None
                    weight = math.exp(log_weight)
                    inside = isinstance(cap, tuple) and cap[0] <= weight <= cap[1]
                    if cap is not None:
                        objective = objective * (weight * inside if isinstance(cap, tuple) else min(weight, cap))
                loss = -objective
                if settings.kl_coefficient:
                    d = other[place - 1, ids[place]] - token
                    estimate = {"k1": -d, "k2": d * d / 2, "k3": d.exp() - d - 1}[settings.advanced.kl_estimator]
                    loss = loss + settings.kl_coefficient * estimate
                probabilities = distribution[place - 1].exp()
                loss = loss + settings.advanced.entropy_bonus * (probabilities * distribution[place - 1]).sum()
                total = total + loss / divided_by
    return total


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kl_coefficient": 0.3, "kl_estimator": "k1"},
        {"kl_coefficient": 0.3, "kl_estimator": "k2"},
        {"kl_coefficient": 0.3, "kl_estimator": "k3"},
        {"entropy_bonus": 0.1},
        {"importance_cap": 1.1},
        {"importance_cap": (0.8, 1.3)},
        {"importance_cap": {"sequence": (0.6, 1.2)}},
        {"importance_cap": {"sequence": (0.6, 1.2), "outside": "truncate"}},
        {"importance_cap": {"sequence": (0.6, 1.2), "tokens": 1.1}, "updates_per_batch": 2, "clip_high": 0.1},
        {"importance_cap": {"sequence": (0.6, 1.2), "tokens": (0.8, 1.3)}, "loss": "cispo", "kl_coefficient": 0.1},
        {"importance_cap": {"sequence": (0.6, 1.2)}, "loss": "gspo", "entropy_bonus": 0.02},
        {"updates_per_batch": 2},
        {"updates_per_batch": 2, "clip_low": 0.05, "clip_high": 0.1},
        {
            "updates_per_batch": 2, "clip_high": 0.3, "kl_coefficient": 0.1, "entropy_bonus": 0.02,
            "importance_cap": 2.0,
        },
        {"loss": "dr_grpo", "advantage": "grpo", "kl_coefficient": 0.1},
        {"loss": "gspo", "updates_per_batch": 2, "clip_low": 0.02, "clip_high": 0.04, "kl_coefficient": 0.1},
        {"loss": "gspo", "importance_cap": 1.02},
        {
            "loss": "gspo", "updates_per_batch": 2, "clip_low": 0.02, "clip_high": 0.04,
            "importance_cap": (0.95, 1.1),
        },
        {"loss": "cispo", "updates_per_batch": 2, "clip_low": 0.05, "clip_high": 0.1, "entropy_bonus": 0.02},
    ],
    ids=str,
)  # fmt: skip
def test_gradient_of_the_step(alone, micro_model, settings, monkeypatch):
    monkeypatch.setitem(TILES, "cpu", (7, 4096))
    asked = stage(learning_rate=0.0, **settings)
    policy, learns = learner(micro_model, Hardware(micro_batch_tokens=60), learning_rate=0.0, **settings)
    batch = groups(0, count=6, **settings)
    random = np.random.default_rng(0)
    with torch.no_grad():
        reference = copy.deepcopy(policy.model).double()
        for weight in policy.model.parameters():  # away from the reference, so that there is a KL to speak of
            weight += torch.from_numpy(random.normal(0, 0.02, weight.shape)).float()
    if asked.updates_per_batch > 1:  # as if the policy had moved since: some ratios are clipped, some are not
        batch = moved(learns.old_logprobs(batch, 0.7))
    metrics = learns.learn(batch, 0.7)

    model = copy.deepcopy(policy.model).double()
    wanted = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
    decay = Optimizer().betas[0]
    for part in range(asked.updates_per_batch):  # at learning rate 0 the second update starts where the first did
        loss = slow_loss(model, reference, batch[part :: asked.updates_per_batch], asked, 0.7)
        found = torch.autograd.grad(loss, list(model.parameters()))
        wanted = {name: decay * before + g for (name, before), g in zip(wanted.items(), found, strict=True)}
    assert largest_difference({n: w.float() for n, w in wanted.items()}, gradient(policy)) < 3e-5
    if isinstance(cap := asked.importance_cap, SequenceImportance):
        assert (0 < metrics["masked_responses"] < 1) == (cap.outside == "mask")
    assert (0 < metrics["clip_fraction"] < 1) == (asked.updates_per_batch > 1)
    assert (metrics["ratio_deviation"] == 0) == (asked.updates_per_batch == 1)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "fraction"),
    [
        (1.5, 1.0, -1.4, 1.0),  # above 1 + high with a positive advantage: no more push
        (1.3, 1.0, -1.3, 0.0),  # inside the decoupled range; a symmetric 0.2 would have clipped it
        (0.5, 1.0, -0.5, 0.0),  # a good token that became unlikely is still pulled up
        (0.7, -1.0, 0.8, 1.0),  # below 1 - low with a negative advantage
        (1.5, -1.0, 1.5, 0.0),
    ],
)
def test_clipping_by_hand(ratio, advantage, loss, fraction):
    given_ratio = torch.tensor([ratio], requires_grad=True)
    value = clipped(given_ratio, torch.tensor([advantage]), 0.2, 0.4)
    assert value.item() == pytest.approx(loss, rel=1e-5)
    assert clip_fraction(given_ratio, torch.tensor([advantage]), 0.2, 0.4).item() == fraction
    (gradient,) = torch.autograd.grad(value.sum(), given_ratio)
    assert (gradient.item() == 0) == bool(fraction)


@pytest.fixture
def two_distributions() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of a policy and of a reference over six tokens, float64."""
    generator = torch.Generator().manual_seed(3)
    policy, reference = (torch.randn(6, generator=generator, dtype=torch.float64) for _ in range(2))
    return policy.requires_grad_(), reference


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_estimators_against_the_whole_vocabulary(two_distributions, estimator):
    """Expectations under π over every token: of the value, and of the gradient as it enters a loss."""
    logits, reference = two_distributions
    logpi, logref = logits.log_softmax(-1), reference.log_softmax(-1)
    pi = logpi.exp().detach()
    reverse, forward = (pi * (logpi - logref)).sum(), (logref.exp() * (logref - logpi)).sum()
    exact_reverse = (logpi.exp() * (logpi - logref)).sum()
    values = kl(logpi, logref, estimator)
    (found,) = torch.autograd.grad((pi * values).sum(), logits, retain_graph=True)
    if estimator == "k2":
        (wanted,) = torch.autograd.grad(exact_reverse, logits, retain_graph=True)
    else:
        torch.testing.assert_close((pi * values).sum(), reverse)
        (wanted,) = torch.autograd.grad(forward if estimator == "k3" else 0 * forward, logits)
    torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)
    if estimator != "k1":
        assert bool((values >= 0).all())


def test_k3_survives_a_token_the_policy_has_given_up():
    assert torch.isfinite(kl(torch.tensor([-1e4]), torch.tensor([0.0]), "k3")).all()


@pytest.mark.parametrize(("length", "penalty"), [(10, 0.0), (80, 0.0), (85, -0.25), (90, -0.5), (100, -1.0)])
def test_soft_overlong_by_hand(length, penalty):
    assert soft_overlong(length, limit=100, buffer=20) == pytest.approx(penalty)


def test_the_adaptive_entropy_bonus_is_on_below_its_target_only(alone, micro_model, monkeypatch):
    assert adapted_entropy_coefficient(0.0, 1.0, target=2.0, step=0.1, most=0.15) == 0.1
    assert adapted_entropy_coefficient(0.1, 1.0, target=2.0, step=0.1, most=0.15) == 0.15
    assert adapted_entropy_coefficient(0.05, 3.0, target=2.0, step=0.1, most=0.15) == 0.0
    monkeypatch.setattr("ratchet.training.learner.ENTROPY_STEP", 0.1)
    monkeypatch.setattr("ratchet.training.learner.MAX_ENTROPY_WEIGHT", 0.15)
    policy, learns = learner(micro_model, entropy_target=100.0)
    used = [learns.learn(groups(i, policy.version), 1.0)["entropy_coefficient"] for i in range(3)]
    assert used == pytest.approx([0.0, 0.1, 0.15])
    _, resumed = learner(micro_model, entropy_target=1e-3)
    resumed.load_state_dict(learns.state_dict())
    assert resumed.learn(groups(3), 1.0)["entropy_coefficient"] == pytest.approx(0.15)
    assert resumed.learn(groups(4, 1), 1.0)["entropy_coefficient"] == 0.0


def test_a_reset_of_the_reference_leaves_the_optimizer_as_it_is(alone, micro_model):
    policy, learns = learner(micro_model, kl_coefficient=0.5, warmup_steps=3)
    learns.learn(groups(0), 1.0)
    assert learns.learn(groups(1, policy.version), 1.0)["kl"] > 0
    before = learns.state_dict(), [value.clone() for of in policy._adam.state.values() for value in of.values()]
    learns.reset(optimizer=False)
    after = [value for of in policy._adam.state.values() for value in of.values()]
    assert learns.state_dict() == before[0] and all(map(torch.equal, after, before[1])) and any(map(torch.any, after))
    assert learns.learn(groups(2, policy.version), 1.0)["kl"] == 0


@pytest.mark.parametrize("zero_stage", range(4))
def test_a_reset_is_a_fresh_start(alone, micro_model, tmp_path, zero_stage):
    """Reference, moments, step count and warm-up: bit for bit what a new stage from the same weights would do."""
    settings = {"kl_coefficient": 0.5, "warmup_steps": 3}
    hardware = Hardware(zero_stage=zero_stage)
    policy, learns = learner(micro_model, hardware, **settings)
    assert learns.learn(groups(0), 1.0)["kl"] == 0
    assert learns.learn(groups(1, policy.version), 1.0)["kl"] > 0
    learns.reset()
    policy.save_model(tmp_path / "model")
    Checkpoints(tmp_path / "checkpoints", policy).save(2, learns.state_dict())
    fresh, learns_fresh = learner(str(tmp_path / "model"), hardware, **settings)
    resumed, learns_resumed = learner(micro_model, hardware, **settings)
    learns_resumed.load_state_dict(Checkpoints(tmp_path / "checkpoints", resumed).restore()[1])
    for again in range(2):  # with the same reference, the second update is the same too
        both = [each.learn(groups(2 + again, p.version), 1.0) for p, each in
                ((policy, learns), (fresh, learns_fresh), (resumed, learns_resumed))]  # fmt: skip
        assert (both[0]["kl"] == 0) == (again == 0)
        assert both[0] == both[1] == both[2]
    for other in (fresh, resumed):
        for weight, wanted in zip(other.whole_model().parameters(), policy.whole_model().parameters(), strict=True):
            assert torch.equal(weight, wanted)
