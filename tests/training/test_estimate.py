import dataclasses
import os
from types import SimpleNamespace

import pytest

from ratchet.infra.inference.vllm_service import ServedVllm
from ratchet.infra.inference.with_vllm import PROFILED_TOKENS, RESERVED, Vllm
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.hardware import HardwareDetails
from ratchet.infra.recipe.training import Hardware, Lora, Stage, Training, TrainingDetails
from ratchet.training import packing
from ratchet.training.estimate import estimate, pressures, scaled
from ratchet.training.logprobs import TILES as LOGIT_TILES
from ratchet.training.machine import (
    CPU,
    CPU_BANDWIDTH,
    KNOWN,
    LEAST_PER_CLOCK,
    PER_CLOCK,
    Machine,
    Rates,
    core_flops,
    local_machine,
    machine_of,
    measured_file,
    parse_machine,
    with_measured,
    write_rates,
)
from ratchet.training.memory import PIECES, TILES, WHOLE
from ratchet.training.shape import Shape
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import GIB
from tests.training.conftest import MICRO
from tests.training.published_steps import PUBLISHED

QWEN_14B = {
    "vocab_size": 152064, "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
    "num_key_value_heads": 8, "intermediate_size": 13824, "tie_word_embeddings": False,
}  # fmt: skip


def stage(**settings) -> Stage:
    return Stage(**{"name": "s", "domain": "math", "max_response_tokens": 8192, "steps": 5, **settings})


def test_parameters_are_those_of_the_model(policy, micro_model):
    config = policy.model.config.to_dict()
    counted = sum(p.numel() for p in policy.model.parameters())
    assert Shape.of(config).parameters == counted
    assert Shape.of(config).head_dim == MICRO.head_dim
    assert Shape.of(QWEN_14B).parameters == pytest.approx(14.77e9, rel=1e-3)


def test_sizes_are_those_of_the_engine():
    """Without the fixture `policy`, which makes tiles of its own size."""
    assert (TILES, PIECES, WHOLE) == (LOGIT_TILES, packing.PIECES, packing.WHOLE)


def test_memory_by_hand():
    """14 billion parameters on 128 GPUs under ZeRO-3: 12 bytes of optimizer a parameter, shared by all."""
    shape = Shape.of(QWEN_14B)
    training = Training(hardware=Hardware(zero_stage=3, dtype="bfloat16", rollout_batch=4))
    needs = estimate(shape, stage(), training, parse_machine("128xH100"))
    assert needs.updating["optimizer"] == pytest.approx(shape.parameters * 12 / 128)
    assert needs.updating["gradients"] == pytest.approx(shape.parameters * 4 / 128), "summed in float32"
    for zero in (0, 1, 2):  # in bfloat16 0 and 1 are 2
        asked = Training(hardware=Hardware(zero_stage=zero, dtype="bfloat16"))
        of_two = estimate(shape, stage(), asked, parse_machine("2xH100")).updating
        sizes = [of_two[name] / shape.parameters for name in ("weights", "gradients", "optimizer")]
        assert sizes == pytest.approx([2, 2, 6])
    assert needs.updating["a machine's copy of the weights"] == pytest.approx(shape.parameters * 2 / 8)
    assert needs.sampling["key-value cache"] == pytest.approx(4 * (8192 + 256) * 48 * 2 * 8 * 128 * 2)
    assert needs.sampling["whole copy to sample with"] == shape.parameters * 2
    assert needs.updating["logits, in chunks"] < 1 * GIB
    assert "reference" not in needs.sampling
    one = estimate(shape, stage(kl_coefficient=1e-3), training, parse_machine("1 x H100"))
    assert one.peak > 200 * GIB and "reference" in one.sampling
    offloaded = training.model_copy(
        update={"hardware": training.hardware.model_copy(update={"advanced": HardwareDetails(cpu_offload=True)})}
    )
    assert "optimizer" not in estimate(shape, stage(), offloaded, parse_machine("H100")).sampling
    assert estimate(shape, stage(), training, parse_machine("64xH100")).step_seconds > needs.step_seconds


@pytest.mark.parametrize(
    ("packed", "prompts", "rollouts", "sampling", "update", "peak"),
    [(False, 8, 8, 11.3, 41.4, 8.21e9), (True, 8, 8, 11.7, 24.4, 7.62e9), (False, 3, 2, None, None, 3.95e9)],
)
def test_steps_that_were_measured_on_cores(packed, prompts, rollouts, sampling, update, peak):
    """SmolLM2-135M with responses of 64 tokens, seconds of one core, the median of three or four steps, and the peak
    after them."""
    shape = Shape(49152, 576, 30, 9, 3, 64, 1536, tied=True)
    training = Training(hardware=Hardware(packed=packed, rollout_batch=64))
    asked = stage(max_response_tokens=64, prompts_per_batch=prompts, rollouts=rollouts)
    machine = Machine("CPU", 1, 24 * GIB, 190e9, CPU_BANDWIDTH, 1, rates=CPU)
    needs = estimate(shape, asked, training, machine, mean_response=0.94)  # nearly all are truncated
    assert sampling is None or needs.seconds["sampling"] == pytest.approx(sampling, rel=0.15)
    assert update is None or needs.seconds["update"] == pytest.approx(update, rel=0.15)
    assert needs.peak == pytest.approx(peak, rel=0.15)


def test_vllm_takes_its_share_and_holds_what_that_leaves():
    shape, machine = Shape.of(QWEN_14B), parse_machine("128xH100")
    hardware = Hardware(zero_stage=3, dtype="bfloat16")
    token, h100 = 48 * 2 * 8 * 128 * 2, 79.2 * GIB
    activations = PROFILED_TOKENS * 2 * (3 * 13824 + 4 * 5120)

    def room(share: float, gpus: int = 1) -> float:
        return (gpus * (share * h100 - RESERVED) - shape.parameters * 2 - activations) / token

    assert activations + RESERVED == pytest.approx(3.9 * GIB, rel=0.01), "what vLLM takes before its cache"
    for share, fits in ((0.4, False), (0.8, True)):
        engine = Vllm(kind="vllm", memory_share=share)
        training = Training(hardware=hardware, engine=engine)
        needs = estimate(shape, stage(max_response_tokens=32768), training, machine)
        assert needs.sampling["vLLM"] == share * h100
        assert needs.engine.room == pytest.approx(max(0.0, room(share)))
        assert (needs.engine.room >= needs.longest == 32768 + 256) == fits
    shared = training.model_copy(update={"engine": Vllm(kind="vllm", memory_share=0.4, tensor_parallel=2)})
    needs = estimate(shape, stage(max_response_tokens=32768), shared, machine)
    assert needs.engine.room == pytest.approx(room(0.4, gpus=2))
    assert needs.engine.room > needs.longest
    assert (needs.engine.engines, needs.engine.gpus, needs.sampling["vLLM"]) == (64, 2, 0.4 * h100)
    apart = ServedVllm(kind="vllm-server", memory_share=0.8, devices=(0, 1), tensor_parallel=2)
    served = estimate(shape, stage(), training.model_copy(update={"engine": apart}), machine)
    assert served.sampling.keys() == {"weights", "optimizer", "a machine's copy of the weights"}
    assert served.engine.room == pytest.approx(room(0.8, gpus=2))
    assert apart.for_evaluation() == Vllm(kind="vllm", memory_share=0.9, tensor_parallel=2)


@pytest.mark.parametrize("name", ["acereason-7b", "acereason-14b"])
def test_the_recipes_of_the_papers_fit_the_papers_machine(name):
    """7B: Qwen2.5-Math's shape."""
    seven = {
        "vocab_size": 152064, "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "tie_word_embeddings": False,
    }  # fmt: skip
    shape = Shape.of(seven if name.endswith("7b") else QWEN_14B)
    training = load_recipe(name).training
    assert training.hardware.ranks == 128
    for each in training.stages:
        needs = estimate(shape, each, training, parse_machine("128xH100"))
        assert needs.peak < 0.9 * 79.2 * GIB and needs.engine.room > needs.longest, each.name


def test_each_limit_is_passed_by_what_should_pass_it():
    """14B on 16 GPUs: what grows says what gives way."""
    shape, machine = Shape.of(QWEN_14B), parse_machine("2x8xH100")
    training = Training(
        hardware=Hardware(zero_stage=3, dtype="bfloat16", activation_checkpointing=True, rollout_batch=24),
        engine=Vllm(kind="vllm", memory_share=0.6),
    )
    plain = stage(prompts_per_batch=256, rollouts=8)

    def over(given=plain, where=machine, how=training, **rates) -> dict[str, float]:
        where = dataclasses.replace(where, rates=Rates(**rates)) if rates else where
        return pressures(estimate(shape, given, how, where), where)

    assert max(over().values()) < 1
    wide = training.model_copy(update={"hardware": training.hardware.model_copy(update={"rollout_batch": 256})})
    assert over(how=wide)["KV cache"] > 1
    longer = over(*scaled(plain, machine, "length", 100))
    assert longer["KV cache"] > 1 and longer["memory"] > 1
    assert over(verdict_s={"math": 1000.0})["judge"] > 1 > over(verdict_s={"math": 0.01})["judge"]
    often = training.model_copy(update={"checkpoint_every": 1})
    assert over(how=often, disk=1e8)["checkpoints"] > 1 > over(how=often, disk=4e9)["checkpoints"]
    short = pressures(estimate(shape, plain, training, machine, mean_response=0.1), machine)
    assert short["idle decode slots"] > 1 > over()["idle decode slots"]


def test_a_full_cache_slows_sampling():
    shape, machine = Shape.of(QWEN_14B), parse_machine("8xH100")
    hardware = Hardware(zero_stage=3, dtype="bfloat16", rollout_batch=256)
    small, large = (
        estimate(shape, stage(), Training(hardware=hardware, engine=Vllm(kind="vllm", memory_share=share)), machine)
        for share in (0.45, 0.9)
    )
    assert small.seconds["sampling"] > 1.2 * large.seconds["sampling"]
    assert small.cached == large.cached > small.engine.room


def test_what_a_preflight_measured_is_what_a_plan_goes_by(tmp_path):
    file = measured_file(tmp_path, "mine")
    h100 = parse_machine("8xH100")
    assert with_measured(h100, file) == h100
    file.parent.mkdir(parents=True)
    write_rates(file, "H100", Rates(update=0.5, verdict_s={"math": 0.1}))
    found = with_measured(h100, file)
    assert (found.rates.update, found.rates.verdict_s, found.count) == (0.5, {"math": 0.1}, 8)
    assert with_measured(parse_machine("8xA100"), file).rates == Rates()
    file.write_text('{"machine": "H100", "rates": {"speed": 1}}')
    with pytest.raises(RatchetError, match="not a preflight's measurements"):
        with_measured(h100, file)


@pytest.mark.parametrize("run", PUBLISHED, ids=lambda run: f"{run.model}-{run.machine}-{run.date}")
def test_published_steps_are_told_within_a_quarter(run):
    """Those that the rates were fitted to, and those that they were not; docs/howto/sizing.md has the table."""
    published = sum(run.seconds) / len(run.seconds)
    assert run.estimate().step_seconds == pytest.approx(published, rel=0.25)


def test_what_cannot_be_estimated_says_why():
    for text in ("8xZ80", "0x8xH100", "2x2x2xH100"):
        with pytest.raises(RatchetError, match=r"a number and a GPU, e\.g\. 8xH100, or 16x8xH100.*known GPUs are H100"):
            parse_machine(text)
    with pytest.raises(RatchetError, match="mixture of experts"):
        Shape.of({**QWEN_14B, "num_experts": 8})
    with pytest.raises(RatchetError, match="no num_attention_heads"):
        Shape.of({"vocab_size": 1, "hidden_size": 1})


def test_machines_are_told_by_their_number_and_what_is_in_one():
    for text, count, in_one in (("H100", 1, 8), ("4xH100", 4, 8), ("16 x 8 x h100", 128, 8), ("2x4xGB200", 8, 4)):
        machine = parse_machine(text)
        assert (machine.count, machine.in_one) == (count, in_one)
    assert parse_machine("8xH100").link > parse_machine("2x8xH100").link
    assert parse_machine("2xA100").link > parse_machine("2xL4").link, "no NVLink"


def test_the_arithmetic_of_a_core_is_measured_once_a_day(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured = iter(range(10, 99))
    monkeypatch.setattr("ratchet.training.machine._measured_core_flops", lambda dtype: float(next(measured)))

    def next_process() -> float:
        core_flops.cache_clear()
        return core_flops("float32")

    assert [next_process(), next_process()] == [10, 10]
    (file,) = (tmp_path / "ratchet").iterdir()
    os.utime(file, (0, 0))
    assert [next_process(), next_process()] == [11, 11], "a day later"
    file.write_text("")
    assert [next_process(), next_process()] == [12, 12], "a damaged file"
    core_flops.cache_clear()


def test_the_machine_found_has_what_it_was_told_where_it_has_no_gpu(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("ratchet.training.machine.core_count", lambda: 2)
    machine = local_machine()
    assert (machine.count, machine.cores) == (1, 2) and "2 cores" in str(machine)
    assert machine.flops == 2 * core_flops("float32")
    assert machine_of(Hardware(processes=2)) == machine
    rounded = machine_of(Hardware(processes=2, dtype="bfloat16"))
    assert rounded == dataclasses.replace(machine, flops=2 * core_flops("bfloat16")), "in the recipe's type"
    assert machine_of(Hardware(processes=3, dtype="bfloat16")) == parse_machine("1x3xH100"), "a core for each rank"
    assert machine_of(Hardware(processes=8, machines=2, dtype="bfloat16")) == parse_machine("2x8xH100")


def test_an_adapter_by_hand():
    """Rank 16 on the seven matrices of each of 48 layers; the base has neither gradient nor optimizer."""
    shape, machine = Shape.of(QWEN_14B), parse_machine("H100")
    own = 48 * 16 * (4 * 5120 + 2 * (5120 + 1024) + 3 * (5120 + 13824))
    assert shape.adapter(Lora()) == own and shape.adapter(Lora(target=("q_proj",))) == 48 * 16 * 2 * 5120
    full = Training(hardware=Hardware(dtype="bfloat16"))
    lora = full.model_copy(update={"advanced": TrainingDetails(lora=Lora())})
    found, all_of_it = (estimate(shape, stage(kl_coefficient=0.1), each, machine) for each in (lora, full))
    assert (
        found.updating["optimizer"] == 12 * own
        and found.updating["gradients"] == 2 * found.updating["reference"] == 4 * own
    )
    assert found.updating["weights"] == 2 * (shape.parameters + own)
    assert found.sampling["whole copy to sample with"] == 2 * shape.parameters
    assert found.updating["whole copy to sample with"] == 2 * shape.parameters, "it is not freed for the update"
    assert found.checkpoint_bytes == 2 * shape.parameters + 14 * own
    assert 0.7 < found.seconds["update"] / all_of_it.seconds["update"] < 0.85


def test_a_sampling_process_has_weights_and_a_cache_while_the_policy_learns():
    machine, stale = parse_machine("8xH100"), stage(advanced={"max_staleness": 1}, importance_cap=2.0)
    beside, between = (
        estimate(Shape.of(QWEN_14B), stale, Training(engine={"kind": "transformers", "beside": where}), machine)
        for where in (True, False)
    )
    for part in ("whole copy to sample with", "key-value cache"):
        assert beside.updating[part] == beside.sampling[part] > 0
        assert part not in between.updating


@pytest.mark.parametrize(
    ("report", "name"),
    [
        ("NVIDIA GeForce RTX 4090, 24564", "4090"), ("NVIDIA A10, 23028", "A10"),
        ("NVIDIA A100-SXM4-40GB, 40960", "A100"), ("NVIDIA H100 80GB HBM3, 81559", "H100"),
        ("NVIDIA L40S, 46068", "L40S"), ("NVIDIA RTX 5090, 32607", "NVIDIA RTX 5090"),
        ("NVIDIA RTX A1000, 8188", "NVIDIA RTX A1000"),
    ],
)  # fmt: skip
def test_a_gpu_here_is_planned_as_what_it_is(report, name, monkeypatch):
    """An unknown one by what torch reads of it: here, as a 5090."""
    import torch

    answer = SimpleNamespace(returncode=0, stdout=f"{report}\n{report}\n")
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr("subprocess.run", lambda *args, **kwargs: answer)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    facts = SimpleNamespace(
        major=12, minor=0, multi_processor_count=170, clock_rate=2_407_000, memory_clock_rate=14_001_000,
        memory_bus_width=512, total_memory=31.4 * GIB,
    )  # fmt: skip
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    machine = local_machine()
    assert (machine.name, machine.count, machine.in_one) == (name, 2, 2)
    more = machine_of(Hardware(processes=8, machines=2, dtype="bfloat16"))
    assert more == dataclasses.replace(machine, count=16, in_one=8, cores=more.cores), "GPUs of this kind"
    assert name != "A100" or machine.memory == 40 * GIB
    if name not in KNOWN:
        assert machine.memory == 31.4 * GIB
        assert machine.bandwidth == pytest.approx(1.79e12, rel=0.01), "the maker's"
        assert machine.flops == pytest.approx(209e12, rel=0.01), "the maker's, with sums in float32"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert local_machine().is_cpu == (name not in KNOWN), "torch would train on the CPU"


@pytest.mark.parametrize("name", ["H100", "A100", "4090", "A10"])
def test_the_rates_of_unknown_gpus_are_near_those_of_known_ones(name):
    """Multiprocessors and clocks (MHz) of the data sheets; boost clocks are those of arithmetic without tensor cores.
    GeForce cards sum in float32 at half of the rate of others of their generation, which count as GeForce."""
    processors, clock, capability = {
        "H100": (132, 1830, (9, 0)), "A100": (108, 1410, (8, 0)), "4090": (128, 2520, (8, 9)),
        "A10": (72, 1695, (8, 6)),
    }[name]  # fmt: skip
    flops = processors * clock * 1e6 * PER_CLOCK.get(capability, LEAST_PER_CLOCK)
    assert flops == pytest.approx(KNOWN[name][1] / (2 if name == "A10" else 1), rel=0.02)
