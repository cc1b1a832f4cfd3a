import pytest
import torch

from ratchet.data_curation.base.protocol import Request, Sampling, derive_seed
from ratchet.infra.inference import transformers_engine
from ratchet.infra.inference.transformers_engine import BLOCK, TransformersEngine, sample, uniform_noise
from ratchet.verifiers.errors import RatchetError
from tests.infra.tiny_endpoint import word_model


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}
    directory = word_model(tmp_path_factory.mktemp("engine"), hidden_size=32, max_position_embeddings=64, **heads)
    return TransformersEngine.load(str(directory), batch_size=16)


def requests(prompts: int, samples: int) -> list[Request]:
    return [
        Request(key=(p, s), seed=derive_seed(p, s), prompt_ids=tuple((p * 7 + i) % 37 + 3 for i in range(2 + p * 3)))
        for p in range(prompts)
        for s in range(samples)
    ]


def by_key(completions):
    return {completion.key: completion for completion in completions}


def test_every_request_is_answered_once_in_order_of_finishing(engine):
    asked = requests(3, 4)
    completions = list(engine.generate(asked, Sampling(max_tokens=20)))
    assert sorted(c.key for c in completions) == sorted(r.key for r in asked)
    lengths = [c.tokens for c in completions]
    assert lengths == sorted(lengths) and len(set(lengths)) > 2


def largest_error(engine, model, asked: list[Request], sampling: Sampling) -> float:
    """The largest difference between the engine's log-probabilities and those of a plain forward pass."""
    prompts = {request.key: request.prompt_ids for request in asked}
    worst = 0.0
    for completion in engine.generate(asked, sampling):
        prompt = prompts[completion.key]
        ids = torch.tensor([prompt + completion.token_ids])
        with torch.no_grad():
            distribution = (model(input_ids=ids).logits[0] / (sampling.temperature or 1)).log_softmax(-1)
        wanted = distribution[len(prompt) - 1 : -1].gather(-1, ids[0, len(prompt) :, None]).squeeze(-1)
        worst = max(worst, (wanted - torch.tensor(completion.logprobs)).abs().max().item())
    return worst


def test_logprobs_are_those_of_a_plain_forward_pass(engine):
    for temperature in (1.0, 0.7):
        sampling = Sampling(temperature=temperature, max_tokens=20)
        assert largest_error(engine, engine.model, requests(4, 3), sampling) < 3e-5


def test_a_response_does_not_depend_on_its_batch(engine):
    asked = requests(4, 6)
    together = by_key(engine.generate(asked, Sampling(max_tokens=24)))
    backwards = by_key(engine.generate(asked[::-1], Sampling(max_tokens=24)))
    for request in asked:
        (alone,) = engine.generate([request], Sampling(max_tokens=24))
        assert together[request.key].token_ids == alone.token_ids == backwards[request.key].token_ids
        assert together[request.key].logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    assert len({c.token_ids for c in together.values()}) > len(asked) / 2


def test_ended_responses_are_replaced(engine, monkeypatch):
    asked, sampling = requests(8, 4), Sampling(max_tokens=24)
    alone = by_key(completion for request in asked for completion in engine.generate([request], sampling))
    decoded: list[int] = []

    def counted(logits, *others):
        decoded.append(len(logits))
        return sample(logits, *others)

    monkeypatch.setattr(transformers_engine, "sample", counted)
    monkeypatch.setattr(transformers_engine, "SPARE", 1)  # so that the cache is moved to make room, too
    monkeypatch.setattr(engine, "batch_size", 8)
    found = by_key(engine.generate(iter(asked), sampling))
    assert found.keys() == alone.keys()
    for key, completion in found.items():
        assert completion.token_ids == alone[key].token_ids
        assert completion.logprobs == pytest.approx(alone[key].logprobs, abs=1e-4)
    assert max(decoded) == 8
    in_turns = sum(max(alone[r.key].tokens for r in asked[i : i + 8]) for i in range(0, len(asked), 8))
    assert len(decoded) < 0.85 * in_turns
    assert list(engine.generate([], sampling)) == []


def test_one_long_prompt_does_not_pad_the_others(engine, monkeypatch):
    """Eight prompts of four tokens and one of sixty: together 540 tokens would be read, 92 suffice."""
    asked = [Request(key=(i,), seed=i, prompt_ids=tuple(range(3 + i, 7 + i))) for i in range(8)]
    asked.insert(3, Request(key=(8,), seed=8, prompt_ids=tuple(i % 30 + 3 for i in range(60))))
    read, inner = [], TransformersEngine._read

    def counting(self, some, sampling):
        rows = inner(self, some, sampling)
        read.append(len({request.prompt_ids for request in some}) * int(rows.lengths.max()))
        return rows

    monkeypatch.setattr(TransformersEngine, "_read", counting)
    sampling = Sampling(max_tokens=3)
    together = by_key(engine.generate(asked, sampling))
    assert read == [32, 60]
    alone = [by_key(engine.generate([request], sampling))[request.key] for request in asked]
    assert [together[c.key].token_ids for c in alone] == [c.token_ids for c in alone]
    read.clear()
    list(engine.generate(requests(4, 1), Sampling(max_tokens=20)))  # of 2 to 11 tokens: one pass
    assert read == [44]


def test_every_stop_token_stops_and_belongs_to_the_response(engine):
    completions = list(engine.generate(requests(4, 16), Sampling(max_tokens=40)))
    stopped = [c for c in completions if c.finish_reason == "stop"]
    assert {c.token_ids[-1] for c in stopped} == {1, 2}
    for completion in stopped:
        assert not {1, 2} & set(completion.token_ids[:-1])
        assert engine.tokenizer.decode(completion.token_ids[-1]) not in completion.text.split()
    for completion in completions:
        assert len(completion.token_ids) == len(completion.logprobs) == completion.tokens
        if completion.finish_reason == "length":
            assert completion.tokens == 40 and not {1, 2} & set(completion.token_ids)


def test_what_does_not_fit_is_refused(engine):
    with pytest.raises(RatchetError, match="64"):
        list(engine.generate([Request(key="long", seed=0, prompt_ids=(5,) * 60)], Sampling(max_tokens=5)))
    with pytest.raises(RatchetError, match="prompt_ids"):
        list(engine.generate([Request(key=0, seed=0, messages=({"role": "user", "content": "?"},))], Sampling()))


def test_load_names_what_it_cannot_read(tmp_path):
    with pytest.raises(RatchetError, match=str(tmp_path / "nothing")):
        TransformersEngine.load(str(tmp_path / "nothing"))


def grid(count: int) -> torch.Tensor:
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


def frequencies(logits: torch.Tensor, sampling: Sampling, count: int = 100_000) -> torch.Tensor:
    """Shares of the tokens when the uniform number takes evenly spaced values: the distribution itself."""
    chosen, _ = sample(logits.expand(count, -1), grid(count), sampling)
    return torch.bincount(chosen, minlength=logits.shape[-1]) / count


def test_sampling_follows_the_tempered_distribution():
    torch.manual_seed(3)
    logits = torch.randn(12)
    for temperature in (1.0, 0.5, 2.0):
        wanted = (logits / temperature).softmax(-1)
        found = frequencies(logits, Sampling(temperature=temperature))
        torch.testing.assert_close(found, wanted, atol=3e-5, rtol=0)


def test_top_k_and_top_p_keep_what_they_should_and_renormalize():
    probabilities = torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15])
    logits = probabilities.log()
    torch.testing.assert_close(
        frequencies(logits, Sampling(top_k=2)), torch.tensor([0, 4 / 7, 0, 3 / 7, 0]), atol=3e-5, rtol=0
    )
    # 0.4 + 0.3 = 0.7 does not reach 0.75, so 0.15 comes in too.
    wanted = torch.tensor([0, 0.4, 0, 0.3, 0.15]) / 0.85
    torch.testing.assert_close(frequencies(logits, Sampling(top_p=0.75)), wanted, atol=3e-5, rtol=0)
    _, logprobs = sample(logits[None], torch.tensor([0.01], dtype=torch.float64), Sampling(top_p=0.75))
    assert logprobs.item() == pytest.approx(torch.tensor(0.4 / 0.85).log().item(), abs=1e-6)


@pytest.mark.parametrize("vocabulary", [16 * BLOCK, 16 * BLOCK + 37])
def test_a_wide_vocabulary_is_sampled_like_a_narrow_one(vocabulary):
    torch.manual_seed(4)
    logits = 3 * torch.randn(vocabulary)
    logits[: 3 * BLOCK] = logits[7 * BLOCK : 8 * BLOCK - 5] = logits[-50:] = -torch.inf
    uniform = torch.cat([grid(5000), torch.tensor([0.0, 1.0 - 2.0**-53], dtype=torch.float64)])
    chosen, logprobs = sample(logits.expand(len(uniform), -1), uniform, Sampling())
    cumulative = logits.double().softmax(-1).cumsum(-1)
    wanted = torch.searchsorted(cumulative, uniform * cumulative[-1], right=True)
    assert logits[chosen].isfinite().all()
    assert (chosen != wanted).float().mean() < 1e-3, "only at a border, by rounding"
    assert (cumulative[chosen] - cumulative[wanted]).abs().max() < 1e-3
    torch.testing.assert_close(logprobs, logits.log_softmax(-1)[chosen], rtol=0, atol=1e-5)


def test_temperature_zero_is_greedy():
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    chosen, logprob = sample(logits, torch.tensor([0.99], dtype=torch.float64), Sampling(temperature=0.0))
    assert chosen.tolist() == [1]
    assert logprob.item() == pytest.approx(logits.log_softmax(-1)[0, 1].item())


def split_mix(seed: int, count: int) -> list[float]:
    """SplitMix64 in Python integers."""
    values, mask = [], (1 << 64) - 1
    for j in range(1, count + 1):
        z = (seed + j * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        values.append(((z ^ (z >> 31)) >> 11) * 2.0**-53)
    return values


def test_noise_is_split_mix():
    seeds = [0, 1, 2**62 + 12345, derive_seed("a", 1)]
    noise = uniform_noise(seeds, 50, "cpu")
    assert noise.tolist() == [split_mix(seed, 50) for seed in seeds]
    assert 0.4 < noise.mean() < 0.6
