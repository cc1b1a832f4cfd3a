"""Whole GRPO steps of models of 0.5 and 1.5 billion parameters on one GPU, with their time by part.

    python -m benchmarks.gpu_steps --write REPORT [--seconds 80]
    python -m benchmarks.gpu_steps --tiny --write REPORT             # a small model, on any machine

Weights are random, so every response runs to its limit, as a long one does. A stage runs in the trainer's own processes
(`training.launch`), samples with the built-in engine, and is stopped after its second step, which is the one reported.
Prefect, MLflow and an installation are not needed. What fails is a row that says so; REPORT is written after every row.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from benchmarks.gpu_proof import BIG, MIDDLE, ROOT, TINY  # makes `ratchet` importable without an installation
from ratchet.data_curation.base.journal import read_lines
from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.launching.group import environment_of_groups
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.model import Model, NewModelConfig
from ratchet.infra.recipe.training import Hardware, Stage, Training
from ratchet.training import new_model
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.processes import last_lines, process_group

SIZES = [("0.5B", MIDDLE, (8, 16, 512)), ("1.5B", BIG, (8, 8, 1024))]
"""Name, shape, and prompts, responses to each and their tokens."""
SMALL = [("small", TINY, (4, 4, 32))]
REPORTED = 2
"""The step reported: the first one also allocates memory and compiles kernels."""


def importable(directory: Path) -> str:
    """A directory in which the checkout's folders are the package `ratchet`."""
    package = directory / "ratchet"
    package.mkdir(parents=True)
    for folder in (child for child in ROOT.iterdir() if (child / "__init__.py").is_file()):
        (package / folder.name).symlink_to(folder)
    return str(directory)


def specification(work: Path, config: NewModelConfig, prompts: int, rollouts: int, tokens: int) -> TrainingSpec:
    model, problems = work / "start", work / "problems.parquet"
    new_model.create(config, ["one two three", "a proof is a number"], 0, model)
    rows = [Problem(f"sum-{i}", domain="math", prompt=f"{i} + 1?", answer=str(i + 1)) for i in range(64)]
    pq.write_table(to_table(rows), problems)
    hardware = Hardware(
        dtype="bfloat16" if torch.cuda.is_available() else "float32", packed=True, activation_checkpointing=True,
        zero_stage=1, micro_batch_tokens=16_384, rollout_batch=prompts * rollouts,
    )  # fmt: skip
    stage = Stage(
        name="s", mix={"math": 1.0}, max_response_tokens=tokens, steps=REPORTED + 1, prompts_per_batch=prompts,
        rollouts=rollouts, kl_coefficient=1e-3,
    )  # fmt: skip
    training = Training(stages=(stage,), hardware=hardware, checkpoint_every=100)
    recipe = Recipe(name="step", model=Model(path=str(model)), training=training)
    files = {"math": problems}
    return TrainingSpec.of(
        recipe, kind="stage", stage="s", model_dir=str(model), problems=files, work_dir=work / "stage"
    )


def measured(spec: TrainingSpec, work: Path, environment: dict[str, str], seconds: float) -> dict[str, Any]:
    """The record of the reported step; the stage's processes are ended with it, or after `seconds`."""
    file, log = work / "spec.json", work / "log"
    file.write_text(spec.model_dump_json())
    argv = (sys.executable, "-P", "-m", "ratchet.training.launch", str(file))
    ends = time.monotonic() + seconds
    with process_group(argv, log, environment) as process:
        while len(records(spec.work_dir)) < REPORTED and process.poll() is None and time.monotonic() < ends:
            time.sleep(0.2)
    found = records(spec.work_dir)
    if not found:
        print(last_lines(log, 40), flush=True)
        raise RuntimeError(f"no step within {seconds:.0f} s")
    return found[:REPORTED][-1]


def records(work: Path) -> list[dict[str, Any]]:
    file = work / "metrics.jsonl"
    return [line for _, line in read_lines(file)] if file.is_file() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, default=Path("gpu_steps.md"))
    parser.add_argument("--seconds", type=float, default=80.0, help="for each model")
    parser.add_argument("--tiny", action="store_true", help="a small model, on any machine")
    asked = parser.parse_args()
    if not (asked.tiny or torch.cuda.is_available()):
        parser.error("there is no GPU here: --tiny is what runs on a CPU")
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    lines = [f"{where}, torch {torch.__version__}.", "", "| | responses | |", "|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="gpu-steps-") as scratch:
        python_path = os.pathsep.join([importable(Path(scratch) / "site"), *sys.path])
        environment = {**environment_of_groups(), "PYTHONPATH": python_path}
        for name, config, (prompts, rollouts, tokens) in SMALL if asked.tiny else SIZES:
            work = Path(scratch) / name
            work.mkdir()
            try:
                spec = specification(work, config, prompts, rollouts, tokens)
                record = measured(spec, work, environment, asked.seconds)
                print(json.dumps(record), flush=True)
                said = ", ".join(f"{key} {value:.3g}" for key, value in record.items() if key.endswith("_seconds"))
            except Exception as error:  # a model that fails must not cost the other the GPU's minutes
                said = f"failed: {type(error).__name__}: {error}"[:600]
            lines.append(f"| GRPO step, {name} | {prompts} x {rollouts} of {tokens} tokens | {said} |")
            asked.write.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
