import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from ratchet.data_curation.base.prompts import PromptFormat, prompt_ids, user_message
from ratchet.infra.recipe.training import Hardware, Optimizer, Training, WarmStart
from ratchet.training import warm_start
from ratchet.training.checkpoint import Checkpoints
from ratchet.training.policy import Policy
from ratchet.training.step_logs import StepLog
from ratchet.verifiers.errors import RatchetError
from tests.training.conftest import sums
from tests.training.processes import timeless_part

FORMAT = PromptFormat(math="{prompt}")
TRACES = [{"prompt": p.prompt, "response": f"The answer is \\boxed{{{p.answer}}}."} for p in sums(24)]
SETTINGS = WarmStart(traces=24, batch_size=4, learning_rate=1e-2, warmup_steps=2)


@pytest.mark.parametrize("prefix", ["", "The"])
def test_prompts_are_encoded_as_rollouts_encode_them_with_the_response_prefix(policy, prefix):
    given = PromptFormat(math="{prompt}", response_prefix=prefix)
    encoded = warm_start.encode(TRACES, policy.tokenizer, given)[0]
    for problem, sample in zip(sums(24), encoded, strict=True):
        assert tuple(sample.prompt) == prompt_ids(policy.tokenizer, [problem], given)[0]
        assert user_message(problem, given) == problem.prompt
        assert sample.response[-1] == policy.tokenizer.eos_token_id
        response = f"The answer is \\boxed{{{problem.answer}}}.".removeprefix(prefix)
        assert policy.tokenizer.decode(sample.response[:-1]) == response


def test_a_prefix_with_which_the_template_ends_is_not_added_again(policy, monkeypatch):
    begun = policy.tokenizer.chat_template + "{{ '<think>\\n' }}"
    plain = prompt_ids(policy.tokenizer, sums(1), PromptFormat(math="{prompt}", response_prefix="<think>\n"))
    monkeypatch.setattr(policy.tokenizer, "chat_template", begun)
    assert prompt_ids(policy.tokenizer, sums(1), PromptFormat(math="{prompt}", response_prefix="<think>\n")) == plain


def test_a_system_prompt_begins_each_chat_if_the_template_takes_one(policy, monkeypatch):
    asked = PromptFormat(math="{prompt}", system_prompt="Be brief.")
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    monkeypatch.setattr(policy.tokenizer, "chat_template", template)
    [problem] = sums(1)
    [ids] = prompt_ids(policy.tokenizer, [problem], asked)
    assert policy.tokenizer.decode(ids) == f"<system>Be brief.<user>{problem.prompt}"
    monkeypatch.setattr(policy.tokenizer, "chat_template", "{{ raise_exception('System role not supported') }}")
    with pytest.raises(RatchetError, match=r"model\.prompt\.system_prompt: .*System role not supported"):
        prompt_ids(policy.tokenizer, [problem], asked)


def test_values_reach_the_chat_template_and_one_that_it_does_not_read_is_refused(policy, monkeypatch):
    template = "{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}<no>{% endif %}"
    monkeypatch.setattr(policy.tokenizer, "chat_template", template)
    [problem] = sums(1)

    def asked(**values: object) -> str:
        prompt = PromptFormat(math="{prompt}", chat_template_kwargs=values)
        return policy.tokenizer.decode(prompt_ids(policy.tokenizer, [problem], prompt)[0])

    assert asked() == asked(enable_thinking=True) == problem.prompt
    assert asked(enable_thinking=False) == f"{problem.prompt}<no>"
    for unread in ("enable_thinkin", "thinking", "tokenize"):
        with pytest.raises(RatchetError, match=f"model.prompt.chat_template_kwargs: .* reads no value '{unread}'"):
            asked(**{unread: False})


def test_traces_longer_than_the_window_are_set_aside_and_counted(policy):
    long = {"prompt": sums(1)[0].prompt, "response": "The answer is " * 60}
    samples, dropped = warm_start.encode([*TRACES[:2], long], policy.tokenizer, FORMAT, positions=96)
    assert [s.index for s in samples] == [0, 1]
    assert [(d["rule"], d["row"]) for d in dropped] == [("trace_too_long", 2)] and dropped[0]["evidence"]["tokens"] > 96
    tokens = dropped[0]["evidence"]["tokens"]
    samples, dropped = warm_start.encode([*TRACES[:2], long], policy.tokenizer, FORMAT, 1024, 96, micro_batch_tokens=96)
    assert len(samples) == 2 and dropped[0]["evidence"] == {"tokens": tokens, "max_tokens": 96}
    with pytest.raises(RatchetError, match=r"1 of 3 traces are longer than .*micro_batch_tokens \(96\)"):
        warm_start.encode([*TRACES[:2], long], policy.tokenizer, FORMAT, 1024, micro_batch_tokens=96)
    with pytest.raises(ValueError, match=r"warm_start.max_tokens \(97\) is above hardware.micro_batch_tokens \(96\)"):
        Training(warm_start=WarmStart(max_tokens=97), hardware=Hardware(micro_batch_tokens=96))
    with pytest.raises(RatchetError, match="every trace is longer than the model's 4 positions"):
        warm_start.encode(TRACES, policy.tokenizer, FORMAT, positions=4)


def test_an_epoch_is_a_permutation_cut_into_whole_batches():
    batches = warm_start.batch_order(50, 8, seed=3)
    assert [len(batch) for batch in batches] == [8] * 6
    assert len(set(np.concatenate(batches))) == 48
    assert not np.array_equal(batches[0], warm_start.batch_order(50, 8, seed=4)[0])
    assert [len(batch) for batch in warm_start.batch_order(5, 8, seed=3)] == [5]
    assert sorted(np.concatenate(warm_start.batch_order(16, 8, seed=3))) == list(range(16))  # the last is whole too
    assert not np.array_equal(batches[0], warm_start.batch_order(50, 8, 3, epoch=1)[0])


def test_each_epoch_sees_every_trace_once_more(alone, micro_model, tmp_path):
    policy = Policy(micro_model, Hardware(), Optimizer())
    samples = warm_start.encode(TRACES, policy.tokenizer, FORMAT)[0]
    seen: list[int] = []

    def micro_batches(batch, original=policy.micro_batches):
        seen.extend(sample.index for sample in batch)
        return original(batch)

    policy.micro_batches = micro_batches
    metrics, settings = StepLog(tmp_path / "metrics.jsonl", -1, 0), SETTINGS.model_copy(update={"epochs": 2})
    assert warm_start.train(settings, 0, samples, policy, Checkpoints(tmp_path / "c", policy), metrics, 0) == 12
    assert sorted(seen[:24]) == sorted(seen[24:]) == list(range(24)) and seen[:24] != seen[24:]


def test_learning_rate_climbs_then_falls_along_a_cosine():
    settings = WarmStart(learning_rate=1.0, warmup_steps=10)
    rates = [warm_start.learning_rate(step, 111, settings) for step in range(111)]
    assert rates[0] == pytest.approx(0.1) and rates[9] == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.525) and rates[110] == pytest.approx(0.05)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def run(policy: Policy, work, until: int | None = None) -> int:
    samples = warm_start.encode(TRACES, policy.tokenizer, FORMAT)[0]
    checkpoints = Checkpoints(work / "checkpoints", policy)
    restored = checkpoints.restore()
    first, state = restored or (0, {})
    if until is not None:

        def stop_there(*arguments, save=checkpoints.save):
            save(*arguments)
            if arguments[0] == until:
                raise KeyboardInterrupt

        checkpoints.save = stop_there
    warm_start.train(SETTINGS, 0, samples, policy, checkpoints, StepLog(work / "metrics.jsonl", first, 0), first, state)
    return first


def test_an_interrupted_warm_start_ends_where_the_other_does(alone, micro_model, tmp_path, monkeypatch):
    """Also its records, which are of more steps than lie between two checkpoints."""
    monkeypatch.setattr(warm_start, "CHECKPOINT_S", 0)
    monkeypatch.setattr(warm_start, "report_every", lambda steps: 3)

    def fresh() -> Policy:
        return Policy(micro_model, Hardware(), Optimizer())

    straight, first, second = fresh(), fresh(), fresh()
    before = warm_start_loss(straight)
    run(straight, tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        run(first, tmp_path / "b", until=4)
    assert run(second, tmp_path / "b") == 4
    for weight, other in zip(straight.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(weight, other)
    assert warm_start_loss(straight) < before - 1
    records = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in "ab"]
    straight_on, resumed = [[timeless_part(json.loads(line)) for line in lines] for lines in records]
    assert straight_on == resumed and [record["step"] for record in resumed] == [3, 6]


def warm_start_loss(policy: Policy) -> float:
    batches = policy.micro_batches(warm_start.encode(TRACES, policy.tokenizer, FORMAT)[0])
    return -float(torch.cat([policy.score(batch, 1.0)[0] for batch in batches]).mean())


def test_a_warm_start_without_traces_is_told(tmp_path):
    path = tmp_path / "kept.parquet"
    pq.write_table(pa.table({"prompt": pa.array([], pa.string()), "response": pa.array([], pa.string())}), path)
    with pytest.raises(RatchetError, match="no traces"):
        warm_start.read_traces(path)
