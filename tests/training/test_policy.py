import math
from dataclasses import replace

import deepspeed
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.infra.inference.attention import whole
from ratchet.infra.inference.with_transformers import EmbeddedEngine
from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.training.logprobs import ChunkedLogProbabilities
from ratchet.training.losses.loss import part_of_step
from ratchet.training.model import ScoredModel, load_model
from ratchet.training.packing import PIECES, WHOLE, Sample, collate, plan_micro_batches
from ratchet.training.policy import Policy
from ratchet.training.sampler import difference
from tests.training.batch import gradient as gradient_of

CPU = torch.device("cpu")


def samples(count: int, seed: int = 0) -> list[Sample]:
    random = np.random.default_rng(seed)

    def ids(low: int, high: int) -> np.ndarray:
        return random.integers(3, 300, random.integers(low, high)).astype(np.int32)

    return [Sample(i, ids(3, 9), ids(1, 14), float(random.normal())) for i in range(count)]


def full_logprobs(hidden, weight, bias, targets, temperature):
    distribution = (torch.nn.functional.linear(hidden, weight, bias) / temperature).log_softmax(-1)
    return distribution.gather(-1, targets[:, None]).squeeze(-1), -(distribution.exp() * distribution).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_chunked_is_the_full_computation(temperature, with_bias, chunk):
    torch.manual_seed(1)
    hidden, weight = torch.randn(23, 8, requires_grad=True), torch.randn(31, 8, requires_grad=True)
    bias = torch.randn(31, requires_grad=True) if with_bias else None
    targets, upstream = torch.randint(31, (23,)), torch.randn(23)
    inputs = [hidden, weight] + ([bias] if with_bias else [])
    logprobs, entropies = ChunkedLogProbabilities.apply(hidden, weight, bias, targets, temperature, chunk, 4096)
    wanted, wanted_entropies = full_logprobs(hidden, weight, bias, targets, temperature)
    torch.testing.assert_close(logprobs, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropies, wanted_entropies, atol=1e-5, rtol=1e-5)
    gradients = torch.autograd.grad((logprobs * upstream).sum(), inputs)
    wanted_gradients = torch.autograd.grad((wanted * upstream).sum(), inputs)
    for gradient, other in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(gradient, other, atol=1e-5, rtol=1e-4)


def computed(batch):
    """Tokens of a packed micro-batch, in which a prompt is computed once."""
    return sum(len(s.response) for s in batch) + sum({s.prompt.tobytes(): len(s.prompt) for s in batch}.values())


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=30), st.integers(1, 4))
def test_packed_sequences_share_their_prompts(given_sizes, ranks):
    """Ids, positions and predicted tokens are those of the whole sequences, and ranks compute about as much."""
    given_samples = [
        Sample(i, np.full(prompt, prompt, np.int32), 100 * i + np.arange(length, dtype=np.int32))
        for i, (prompt, length) in enumerate(given_sizes)
    ]
    plan = plan_micro_batches(given_samples, ranks, 60, packed=True)
    assert sorted(s.index for share in plan for batch in share for s in batch) == list(range(len(given_samples)))
    assert len({len(share) for share in plan}) == 1
    tokens = [sum(computed(batch) for batch in share) for share in plan]
    assert max(tokens) - min(tokens) <= sum(map(len, given_samples)) / ranks / PIECES + 2 * max(map(len, given_samples))
    for batch in (batch for share in plan for batch in share if batch):
        assert computed(batch) <= 60 and sum(map(len, batch)) <= WHOLE * 60
        found = collate(batch, CPU, packed=True)
        ids = torch.from_numpy(np.concatenate([part for s in batch for part in (s.prompt, s.response)]))[None].long()
        every = {"input_ids": ids, "position_ids": torch.cat([torch.arange(len(s)) for s in batch])[None]}
        distinct = len({s.prompt.tobytes() for s in batch})
        assert found.input_ids.shape[1] == computed(batch)
        assert (found.prompts is None) == (distinct == len(batch))
        for name in ("input_ids", "position_ids"):
            values = getattr(found, name)
            restored = whole(values, found.prompts, 1) if found.prompts else values
            assert torch.equal(restored, every[name])
        assert torch.equal(ids[0, found.columns + 1], found.targets)


def test_ranks_share_long_tailed_groups_evenly_and_read_most_prompts_once():
    """128 groups of 8 responses up to 8K on 32 ranks: the busiest within a twentieth of the mean, and most prompts on
    one or two ranks."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(7.8, 0.8, (128, 1)) * random.lognormal(0, 0.6, (128, 8)), 20, 8192).astype(int)
    prompts = [np.full(256, i, np.int32) for i in range(128)]
    given_samples = [
        Sample(8 * i + j, prompts[i], np.zeros(lengths[i, j], np.int32)) for i in range(128) for j in range(8)
    ]
    plan = plan_micro_batches(given_samples, 32, 16_384, packed=True, even=35_000)
    costs = [sum(len(s) * (1 + len(s) / 35_000) for batch in share for s in batch) for share in plan]
    assert max(costs) < 1.05 * np.mean(costs)
    assert sum(len({s.prompt[0] for batch in share for s in batch}) for share in plan) < 2.5 * 128


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(100, 400))
def test_packed_micro_batches_are_of_about_the_same_size(lengths, budget):
    """As few as the budget allows, or one more, and none is just the rest: the largest one sets the memory."""
    prompt = np.zeros(10, np.int32)
    (share,) = plan_micro_batches(
        [Sample(i, prompt, prompt[:1].repeat(n)) for i, n in enumerate(lengths)], 1, budget, True
    )
    sizes, fewest = [computed(batch) for batch in share], math.ceil((10 + sum(lengths)) / budget)
    assert len(sizes) <= fewest + 1 and max(sizes) <= (10 + sum(lengths)) / fewest + 10 + 30


class LargestTensor(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation made."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_tokens_times_vocabulary_never_exists():
    tokens, vocabulary, chunk = 300, 500, 10
    hidden, weight = torch.randn(tokens, 4, requires_grad=True), torch.randn(vocabulary, 4, requires_grad=True)
    with LargestTensor() as largest:
        logprobs, _ = ChunkedLogProbabilities.apply(
            hidden, weight, None, torch.zeros(tokens, dtype=int), 1.0, chunk, 4096
        )
        logprobs.sum().backward()
    assert largest.elements <= chunk * vocabulary


def test_packed_attention_never_holds_tokens_times_tokens(alone, micro_model):
    """Forward, backward, and again where activations are computed twice."""
    policy = Policy(
        micro_model, Hardware(packed=True, activation_checkpointing=True, micro_batch_tokens=10_000), Optimizer()
    )
    given_samples = samples(60)
    tokens, (batch,) = sum(map(len, given_samples)), policy.micro_batches(given_samples)
    policy.model.train()
    with LargestTensor() as largest:
        policy.engine.module(batch, 1.0)[0].sum().backward()
    assert batch.input_ids.shape == (1, tokens) and largest.elements < tokens**2 / 4


@given(st.lists(st.integers(2, 40), min_size=1, max_size=40), st.integers(1, 4), st.integers(10, 200))
def test_plan_deals_every_sample_once_and_equal_counts(lengths, ranks, budget):
    given_samples = [Sample(i, np.zeros(1, np.int32), np.zeros(n - 1, np.int32)) for i, n in enumerate(lengths)]
    plan = plan_micro_batches(given_samples, ranks, budget)
    assert sorted(s.index for share in plan for batch in share for s in batch) == list(range(len(lengths)))
    assert len({len(share) for share in plan}) == 1
    for batch in (batch for share in plan for batch in share if len(batch) > 1):
        assert len(batch) * max(map(len, batch)) <= budget


def test_padded_scores_are_those_of_the_plain_model(policy):
    several = samples(6)
    logprobs, entropies = policy.score(collate(several, CPU), 0.7)
    wanted = []
    for sample in several:
        ids, first = torch.tensor(np.concatenate([sample.prompt, sample.response])).long(), len(sample.prompt)
        with torch.no_grad():
            distribution = (policy.model(input_ids=ids[None]).logits[0, first - 1 : -1] / 0.7).log_softmax(-1)
        own = distribution.gather(-1, ids[first:, None]).squeeze(-1)
        wanted.append(torch.stack([own, -(distribution.exp() * distribution).sum(-1)]))
    torch.testing.assert_close(torch.stack([logprobs, entropies]), torch.cat(wanted, dim=1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("stage", range(4))
def test_in_bfloat16_the_sum_over_micro_batches_is_in_float32(alone, micro_model, stage):
    """Against the float64 sum of the same micro-batches' gradients; summed in bfloat16 the error is 0.4 %."""
    policy = Policy(micro_model, Hardware(zero_stage=stage, dtype="bfloat16"), Optimizer(max_gradient_norm=1e9))
    batches = [batch for sample in samples(24) for batch in policy.micro_batches([sample])]

    def loss(batch, logprobs, _):
        return -(batch.weights * logprobs).sum()

    alone_one = load_model(micro_model, "bfloat16")[0]
    exact = {name: torch.zeros(weight.shape, dtype=torch.float64) for name, weight in alone_one.named_parameters()}
    for batch in batches:
        alone_one.zero_grad()
        loss(batch, *ScoredModel(alone_one)(batch, 1.0)).backward()
        for name, weight in alone_one.named_parameters():
            exact[name] += weight.grad.double()
    policy.accumulate(batches, loss, 1.0)
    policy.step(0.0, divisor=3.0)
    found = gradient_of(policy)
    error = sum(float((3 * found[n].reshape(g.shape) - g).square().sum()) for n, g in exact.items())
    assert (error / sum(float(g.square().sum()) for g in exact.values())) ** 0.5 < 1e-5


def test_updates_are_adamw_with_the_recipes_settings(alone, micro_model):
    """Two clipped updates against torch's optimizer on the same gradients."""
    settings = Optimizer(weight_decay=0.3, betas=(0.8, 0.9), max_gradient_norm=0.05)
    policy = Policy(micro_model, Hardware(), settings)
    batch = collate(samples(4), CPU)

    def loss(batch, logprobs, _):
        return part_of_step(-batch.weights * logprobs, batch.mask, 20, 1)

    wanted = [weight.detach().clone() for weight in policy.model.parameters()]
    adamw = torch.optim.AdamW(wanted, lr=0.01, betas=(0.8, 0.9), weight_decay=0.3)
    for _ in range(2):
        logprobs, _entropy = policy.engine.module(batch, 1.0)
        gradients = torch.autograd.grad(loss(batch, logprobs, None), list(policy.model.parameters()))
        for weight, gradient in zip(wanted, gradients, strict=True):
            weight.grad = gradient.clone()
        assert torch.nn.utils.clip_grad_norm_(wanted, 0.05) > 0.05
        adamw.step()
        policy.update([batch], loss, 1.0, 0.01)
    for weight, other in zip(policy.model.parameters(), wanted, strict=True):
        torch.testing.assert_close(weight.detach(), other, atol=1e-5, rtol=0)


def test_a_padding_micro_batch_changes_nothing(alone, micro_model):
    policy = Policy(micro_model, Hardware(), Optimizer())
    before = {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}
    idle = replace(collate(samples(1), CPU), mask=torch.zeros(len(samples(1)[0].response)))
    loss = lambda batch, logprobs, _: part_of_step(-logprobs, batch.mask, 1, 1)  # noqa: E731
    assert policy.update([idle], loss, 1.0, 1e-3) == 0.0
    for name, weight in policy.model.named_parameters():
        assert torch.equal(weight, before[name])


def test_shards_are_gathered_in_buckets(alone, micro_model, monkeypatch):
    policy = Policy(micro_model, Hardware(zero_stage=3), Optimizer())
    whole = {name: weight.clone() for name, weight in policy.whole_model().named_parameters()}
    size, taken = 4 * sum(weight.numel() for weight in whole.values()), []

    class Counted(deepspeed.zero.GatheredParameters):
        def __init__(self, weights):
            taken.append(sum(weight.ds_numel for weight in weights) * 4)
            super().__init__(weights)

    monkeypatch.setattr(deepspeed.zero, "GatheredParameters", Counted)
    for bucket, least, most in ((2**29, 1, 1), (size // 3, 3, 5), (1, len(whole), len(whole))):
        taken.clear()
        monkeypatch.setattr("ratchet.training.policy.BUCKET", bucket)
        received = dict(policy.weights())
        assert received.keys() == whole.keys() and all(torch.equal(received[name], whole[name]) for name in whole)
        assert least <= len(taken) <= most and sum(taken) == size
        assert max(taken) <= bucket + 4 * max(weight.numel() for weight in whole.values())


def test_float32_logits_bring_engine_and_trainer_closer(alone, micro_model):
    """What is left is rounding of the hidden states, which both modes have."""
    gaps = []
    for kind in ("float32", "bfloat16"):
        hardware = Hardware(dtype="bfloat16", advanced={"logits": kind})
        policy = Policy(micro_model, hardware, Optimizer())
        engine = EmbeddedEngine(policy, 8, hardware.rounded_logits)
        engine.receive("1")
        requests = [Request(i, i, (5 + i, 9, 17)) for i in range(8)]
        made = list(engine.generate([requests], Sampling(max_tokens=24)))
        gaps.append(float(difference(policy, [r.prompt_ids for r in requests], made).square().mean()))
    assert 0 < gaps[0] < gaps[1]
