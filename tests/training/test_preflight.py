"""Preflight: all green where all is well, and of what is planted exactly one line red."""

from __future__ import annotations

import json
import time
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.recipe import Recipe
from ratchet.training.specification import TrainingSpec
from tests.training.conftest import sums

STAGE = {"name": "math-12", "domain": "math", "max_response_tokens": 12, "steps": 2, "rollouts": 4}
SETTINGS = {
    "name": "micro",
    "training": {
        "hardware": {"micro_batch_tokens": 200, "rollout_batch": 8},
        "stages": [{**STAGE, "prompts_per_batch": 4}, {**STAGE, "name": "kl", "kl_coefficient": 0.1, "loss": "gspo"}],
    },
}
LINES = ["versions", "links", "disk", "weights", "decoding", "mismatch", "step math-12", "step kl", "judge math"]


@pytest.fixture
def checked(alone, micro_model, tmp_path) -> Callable[[], dict[str, tuple[str, str]]]:
    """The checks on one rank, in this process: state and words by name."""
    from ratchet.training import preflight

    def check() -> dict[str, tuple[str, str]]:
        pq.write_table(to_table(sums(6)), tmp_path / "math.parquet")
        recipe = Recipe.model_validate(SETTINGS | {"model": {"path": micro_model, "prompt": {"math": "{prompt}"}}})
        spec = TrainingSpec.of(
            recipe, kind="preflight", work_dir=tmp_path, problems={"math": tmp_path / "math.parquet"},
            measured=tmp_path / "measured.json",
        )  # fmt: skip
        preflight.Preflight(spec).check()
        found = [json.loads(line) for line in (tmp_path / preflight.LINES).read_text().splitlines()]
        return {line["name"]: (line["state"], line["message"]) for line in found}

    return check


def test_all_is_well_and_what_was_measured_is_left_for_plans(checked, tmp_path):
    from ratchet.training.machine import CPU, Rates

    found = checked()
    assert list(found) == [*LINES, "checkpoint"]
    assert {name: state for name, (state, _) in found.items() if state != "OK"} == {"links": "SKIP"}
    measured = json.loads((tmp_path / "measured.json").read_text())
    rates = Rates(**measured["rates"])
    assert measured["machine"] == "CPU" and 0 < rates.update < 1 and 0 < rates.decode <= 1
    assert rates.verdict_s["math"] > 0 and rates.disk != CPU.disk
    assert "planned" in found["step kl"][1] and "verdicts/s" in found["judge math"][1]


def full_disk(patch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    patch.setattr("ratchet.training.cluster.shutil.disk_usage", lambda place: usage(10**9, 10**9, 1000))


def slow_judge(patch: pytest.MonkeyPatch) -> None:
    from ratchet.verifiers.math import domain

    prepare = domain.Math.prepare

    def slowly(self, submission):
        time.sleep(0.5)
        return prepare(self, submission)

    patch.setattr(domain.Math, "prepare", slowly)
    patch.setattr("ratchet.training.preflight.JUDGED", 1)


def other_version(patch: pytest.MonkeyPatch) -> None:
    """As if a second rank had another torch."""
    from ratchet.training import ranks

    gather = ranks.gather

    def gathered(item):
        if isinstance(item, tuple) and isinstance(item[1], dict) and "torch" in item[1]:
            return [item, ("node7", {**item[1], "torch": "2.0.1"})]
        return gather(item)

    patch.setattr(ranks, "gather", gathered)


def other_probabilities(patch: pytest.MonkeyPatch) -> None:
    from ratchet.infra.inference.with_transformers import EmbeddedEngine

    generate = EmbeddedEngine.generate

    def shifted(self, batches, sampling):
        for completion in generate(self, batches, sampling):
            yield replace(completion, logprobs=tuple(value - 1 for value in completion.logprobs))

    patch.setattr(EmbeddedEngine, "generate", shifted)


def small_memory(patch: pytest.MonkeyPatch) -> None:
    from ratchet.training import machine, preflight

    found = replace(machine.local_machine(), memory=50e6)
    patch.setattr(preflight, "local_machine", lambda dtype: found)


@pytest.mark.parametrize(
    ("plant", "red", "words"),
    [
        (full_disk, {"disk"}, "are needed: free some"),
        (slow_judge, {"judge math"}, "Add training.reward_servers"),
        (other_version, {"versions"}, "and 2.0.1 on rank 1 (node7)"),
        (other_probabilities, {"mismatch"}, "nats a token"),
        (small_memory, {"step math-12", "step kl"}, "micro_batch_tokens, or shard more"),
    ],
)
def test_what_is_planted_turns_its_line_red_and_no_other(checked, monkeypatch, plant, red, words):
    plant(monkeypatch)
    found = checked()
    assert {name for name, (state, _) in found.items() if state == "FAIL"} == red
    assert all(words in found[name][1] for name in red)
