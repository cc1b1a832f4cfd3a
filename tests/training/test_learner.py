import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from ratchet.data_curation.base.protocol import Request, Sampling, derive_seed
from ratchet.infra.inference.with_transformers import EmbeddedEngine
from ratchet.infra.recipe.stage import StageDetails
from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.training.groups import Rollout, group
from ratchet.training.learner import Learner
from ratchet.training.model import ScoredModel
from ratchet.training.policy import Policy
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from tests.training.batch import FAILED, INFRA, PASSED, groups, learn_in_parts, learner, rollout, stage


def learned(micro_model: str, rollouts: list[Rollout], **settings):
    policy = Policy(micro_model, Hardware(), Optimizer())
    metrics = Learner(policy, stage(**settings)).learn(group(rollouts, stage(**settings)), 1.0)
    return metrics, [weight.detach().clone() for weight in policy.model.parameters()]


def mixed(problem: int) -> list[Rollout]:
    return [rollout(problem, sample, PASSED if sample == problem % 3 else FAILED) for sample in range(3)]


def equal(weights, others) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


CUT = rollout(1, 9, Outcome.UNPARSEABLE, truncated=True)


@pytest.mark.parametrize(
    ("extra", "settings", "counts"),
    [
        (rollout(1, 9, INFRA), {}, False),
        (CUT, {"truncation": "mask"}, False),
        (CUT, {}, True),
        (rollout(1, 9, FAILED), {}, True),
    ],
)
def test_a_masked_sample_alone_is_a_removed_sample(alone, micro_model, extra, settings, counts):
    without = mixed(0) + mixed(1)
    _, weights = learned(micro_model, without, **settings)
    _, others = learned(micro_model, [*without, extra], **settings)
    assert equal(weights, others) != counts


def test_groups_without_variance_move_nothing(alone, micro_model):
    start = [weight.detach().clone() for weight in Policy(micro_model, Hardware(), Optimizer()).model.parameters()]
    same = [rollout(0, s, PASSED) for s in range(3)] + [rollout(1, s, FAILED) for s in range(3)]
    metrics, weights = learned(micro_model, same)
    assert equal(start, weights)
    assert metrics["skipped_updates"] == 1 and metrics["trained_tokens"] == 0


def test_warm_up_counts_optimizer_steps(alone, micro_model):
    learner = Learner(Policy(micro_model, Hardware(), Optimizer()), stage(warmup_steps=4))
    assert [learner.learning_rate(update) for update in range(6)] == pytest.approx(
        [0.25e-3, 0.5e-3, 0.75e-3, *[1e-3] * 3]
    )


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_a_decay_is_transformers_schedule_and_a_reset_only_warms_up_again(alone, micro_model, kind):
    asked = stage(warmup_steps=3, steps=10, updates_per_batch=2, lr_scheduler_type=kind)
    learner = Learner(policy := Policy(micro_model, Hardware(), Optimizer()), asked)
    peer = torch.optim.AdamW(policy.model.parameters(), lr=1e-3)
    schedule = transformers.get_scheduler(kind, peer, num_warmup_steps=3, num_training_steps=20)
    theirs = [schedule.get_last_lr()[0]]
    for _ in range(19):
        peer.step()
        schedule.step()
        theirs.append(schedule.get_last_lr()[0])
    ours = [learner.learning_rate(update) for update in range(20)]
    assert ours == pytest.approx([1e-3 / 3, 2e-3 / 3, 1e-3, *theirs[3:]]) and 0 < ours[-1] < 1e-4
    learner.load_state_dict({**learner.state_dict(), "updates": 8})
    learner.reset()
    resumed = Learner(policy, asked)
    resumed.load_state_dict(learner.state_dict())
    assert [resumed.learning_rate(8 + i) for i in range(4)] == pytest.approx(
        [theirs[8] / 3, theirs[9] * 2 / 3, theirs[10], theirs[11]]
    )


def test_a_decay_that_warm_up_leaves_no_steps_for_is_refused():
    with pytest.raises(ValueError, match=r"cosine begins after warmup_steps \(5\).* only 5 optimizer steps"):
        stage(warmup_steps=5, lr_scheduler_type="cosine")


def test_a_policy_that_is_not_finite_is_reported(alone, micro_model):
    policy = Policy(micro_model, Hardware(), Optimizer())
    with torch.no_grad():
        policy.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(RatchetError, match="diverged"):
        Learner(policy, stage()).learn(group(mixed(0), stage()), 1.0)


def half_taught() -> list[Rollout]:
    """Two groups with an advantage, two without, and two responses that do not count."""
    same = [rollout(problem, s, outcome) for problem, outcome in ((2, PASSED), (3, FAILED)) for s in range(3)]
    return [*mixed(0), *mixed(1), rollout(1, 9, INFRA), *same, rollout(3, 9, INFRA)]


def measured(policy: Policy, rollouts: list[Rollout]) -> tuple[float, float]:
    """Entropy and mismatch over the tokens of these responses that count, in float64, one response at a time."""
    model, entropies, differences = copy.deepcopy(policy.model).double(), [], []
    for r in (r for r in rollouts if r.outcome is not INFRA):
        ids, first = torch.tensor([*r.prompt.tolist(), *r.response.tolist()]), len(r.prompt)
        with torch.no_grad():
            log = model(input_ids=ids[None]).logits[0, first - 1 : -1].log_softmax(-1)
        entropies.append(-(log.exp() * log).sum(-1))
        difference = log[range(len(r.response)), ids[first:]] - torch.tensor(r.logprobs)
        differences.append(difference.expm1() - difference)
    return float(torch.cat(entropies).mean()), float(torch.cat(differences).mean())


@pytest.mark.parametrize(
    "settings",
    [{}, {"entropy_bonus": 1e-9}, {"kl_coefficient": 1e-9}, {"updates_per_batch": 2}, {"early": True}],
    ids=str,
)
def test_entropy_and_mismatch_are_of_every_token_that_counts(alone, micro_model, settings):
    early = settings.pop("early", False)
    policy, learns = learner(micro_model, Hardware(micro_batch_tokens=70), learning_rate=0.0, **settings)
    batch = group(half_taught(), stage())
    metrics = learn_in_parts(learns, batch, 1.0) if early else learns.learn(batch, 1.0)
    found = metrics["entropy"], metrics["mismatch_kl"]
    assert found == pytest.approx(measured(policy, half_taught()), rel=1e-5)
    assert early == bool(metrics.get("learned_early"))


@pytest.fixture
def passes(monkeypatch) -> list[tuple[bool, int]]:
    """Each forward pass: with a gradient or without, and its response tokens."""
    forward, seen = ScoredModel.forward, []

    def counted(self, batch, temperature):
        seen.append((torch.is_grad_enabled(), sum(batch.lengths)))
        return forward(self, batch, temperature)

    monkeypatch.setattr(ScoredModel, "forward", counted)
    return seen


@pytest.mark.parametrize("early", [False, True])
def test_many_responses_without_a_gradient_cost_one_micro_batch_and_are_weighted_by_their_tokens(
    alone, micro_model, passes, early
):
    budget, one = 60, rollout(2, 0, PASSED)
    for copies in (3, 50):
        rollouts = [*mixed(0), *mixed(1), *(replace(one, sample=sample) for sample in range(copies))]
        policy, learns = learner(micro_model, Hardware(micro_batch_tokens=budget), learning_rate=0.0)
        batch = group(rollouts, stage())
        passes.clear()
        metrics = learn_in_parts(learns, batch, 1.0) if early else learns.learn(batch, 1.0)
        assert 0 < sum(tokens for with_gradient, tokens in passes if not with_gradient) <= budget
        found = metrics["entropy"], metrics["mismatch_kl"]
        assert found == pytest.approx(measured(policy, rollouts), rel=1e-5)
        assert metrics["trained_tokens"] == sum(len(r.response) for r in rollouts[:6])


def test_nothing_is_computed_twice_or_for_no_reason(alone, micro_model, passes):
    def tokens(rollouts, **settings):
        passes.clear()
        _, learns = learner(micro_model, **settings)
        learns.learn(group(rollouts, stage()), 1.0)
        return [sum(n for with_gradient, n in passes if with_gradient is kind) for kind in (True, False)]

    each = [sum(len(r.response) for r in half_taught()[part]) for part in (slice(6), slice(7, 13))]
    assert tokens(half_taught()) == each
    assert tokens(half_taught(), entropy_bonus=0.1) == [sum(each), 0]
    assert tokens(mixed(0) + mixed(1)) == [each[0], 0]


def test_the_entropy_controller_reads_the_same_with_its_bonus_on_and_off(alone, micro_model):
    _, learns = learner(micro_model, learning_rate=0.0, entropy_target=100.0)
    batch = half_taught()
    read = []
    for step in range(2):
        rollouts = [replace(r, version=step) for r in batch]
        metrics = learns.learn(group(rollouts, stage()), 1.0)
        read.append((metrics["entropy_coefficient"] > 0, metrics["entropy"]))
    assert [on for on, _ in read] == [False, True]
    assert read[0][1] == pytest.approx(read[1][1], rel=1e-6)


def test_each_domains_entropy_is_of_its_own_tokens(alone, micro_model):
    rollouts = [replace(r, domain="code" if r.problem_id in ("p1", "p3") else "math") for r in half_taught()]
    policy, learns = learner(micro_model, learning_rate=0.0, mix={"math": 0.5, "code": 0.5})
    metrics = learns.learn(group(rollouts, learns.stage), 1.0)
    for domain in ("math", "code"):
        own = [r for r in rollouts if r.domain == domain]
        assert metrics[f"{domain}/entropy"] == pytest.approx(measured(policy, own)[0], rel=1e-5)
    assert metrics["trained_tokens"] == metrics["math/trained_tokens"] + metrics["code/trained_tokens"]


@pytest.fixture
def sampled(policy) -> list[Rollout]:
    """Responses that the policy itself has sampled, the first of each four right."""
    requests = [Request((p, s), derive_seed(p, s), tuple(range(5 + p, 12))) for p in range(2) for s in range(4)]
    found = sorted(EmbeddedEngine(policy, 8).generate([requests], Sampling(max_tokens=8)), key=lambda c: c.key)
    outcomes = [PASSED if c.key[1] == 0 else FAILED for c in found]
    return [
        replace(
            rollout(*c.key, outcome), prompt=np.array(r.prompt_ids), response=np.array(c.token_ids),
            logprobs=np.array(c.logprobs, np.float32),
        )
        for r, c, outcome in zip(requests, found, outcomes, strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_the_policy_sampled_is_learnt_from_and_what_other_weights_sampled_is_not(micro_model, sampled, dtype):
    """The engine in float32, and the trainer in either type: rounding is far below the limit."""
    asked = stage(mismatch_limit=StageDetails().mismatch_limit)
    policy = Policy(micro_model, Hardware(dtype=dtype), Optimizer())
    assert Learner(policy, asked).learn(group(sampled, asked), 1.0)["mismatch_kl"] < 1e-3
    policy = Policy(micro_model, Hardware(dtype=dtype), Optimizer())
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.add_(torch.randn_like(weight))
    with pytest.raises(RatchetError, match=r"differ by \S+ nats per token \(mismatch_limit: 0\.1\)"):
        Learner(policy, asked).learn(group(sampled, asked), 1.0)


def test_rollouts_of_other_weights_are_refused_where_training_is_strictly_on_policy(alone, micro_model):
    _, learns = learner(micro_model)
    assert learns.learn(groups(0), 1.0)["ratio_deviation"] == 0
    with pytest.raises(RatchetError, match=r"sampled with weights \[0\], and the trainer has 1"):
        learns.learn(groups(1), 1.0)
    _, several = learner(micro_model, updates_per_batch=2)
    several.learn(groups(0), 1.0)
    assert several.learn(groups(1), 1.0)["ratio_deviation"] > 0


def test_what_was_carried_over_meets_its_own_old_policy(alone, micro_model):
    policy, learns = learner(micro_model, updates_per_batch=2)
    carried = learns.old_logprobs(groups(0, count=2), 1.0)
    first = learns.learn(groups(1), 1.0)
    later = learns.learn([*carried, *groups(2, policy.version, count=2)], 1.0)
    assert later["ratio_deviation"] > first["ratio_deviation"] > 0


def test_rewards_of_responses_that_do_not_end():
    cut, long = rollout(0, 0, FAILED, truncated=True), replace(rollout(0, 1, PASSED), response=np.arange(14))
    assert group([cut, long], stage(unfinished_penalty=0.5))[0].rewards == (-0.5, 1.0)
    soft = stage(truncation="soft_overlong", overlong_buffer_tokens=4)
    assert group([long], soft)[0].rewards == (0.5,)


def test_a_graded_domain_earns_the_verifiers_fraction(monkeypatch):
    rollouts = [rollout(0, 0, FAILED, fraction=0.5, domain="code"), rollout(0, 1, PASSED, fraction=1.0, domain="code")]
    assert group(rollouts, stage())[0].rewards == (0.0, 1.0)
    mixed = stage(mix={"code": 0.5, "math": 0.5}, graded=("code",))
    assert group(rollouts, mixed)[0].rewards == (0.5, 1.0)
    assert group([rollout(1, 0, FAILED, fraction=0.5)], mixed)[0].rewards == (0.0,)
    monkeypatch.setattr(type(domain_of("code")), "reward", "graded")
    assert group(rollouts, stage(domain="code"))[0].rewards == (0.5, 1.0)
