"""Thousands of steps of a very small run: is anything that should stay flat growing?

    python -m benchmarks.endurance HOME [--steps 5000] [--kills 6] [--ranks 1]

Two domains (sums, judged in process, and words, judged in confined processes), a KL term, dynamic sampling, two updates
a batch, validation, and every kind of intervention: resets on schedule and on a plateau, a longer limit, a penalty
for what does not end, a domain that is added, more rollouts, a stop at the end. Run once and left alone, and once more
with SIGKILL at `--kills` random moments; either goes on from its last checkpoint when the command is given again.

Prints the last tenth of the run against its first: memory of the ranks and of the judge's processes, CPU time and
medians of the seconds of a step; the size of what is on disk; the interventions; and whether both runs are bit for bit
the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean, median
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.journal import read_lines
from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.recipe import Recipe
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.domain import Domain
from ratchet.verifiers.domains import OWN_DOMAINS
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.registry import IMPORT_PATH
from tests.training.processes import alive

ROOT = Path(__file__).resolve().parent.parent
SUMS = [
    Problem(f"sum-{a}-{b}", "math", f"What is {a} plus {b}?", answer=str(a + b)) for a in range(10) for b in range(10)
]
WORDS = [Problem(f"word-{i}", "words", f"Say {i} again.", answer=str(i)) for i in range(40)]
FLAT = 0.02
"""Share by which memory may have grown."""


class Words(Domain):
    """Judged in a confined process forked for each answer."""

    name = "words"
    templates = {"words": "{prompt}"}
    reward = "graded"

    def extract(self, response: str) -> str | None:
        return response[-40:] or None

    def score(self, problem: Problem, answer: str) -> float:
        return min(1.0, answer.count(problem.answer) / 2)


def recipe(steps: int, ranks: int) -> dict[str, Any]:
    def at(share: float) -> dict[str, int]:
        return {"at_step": max(1, round(share * steps))}

    stage = {
        "name": "long", "mix": {"math": 1}, "max_response_tokens": 10, "steps": steps + 100, "prompts_per_batch": 4,
        "rollouts": 4, "learning_rate": 2e-4, "updates_per_batch": 2, "clip_high": 0.4, "kl_coefficient": 1e-3,
        "dynamic_sampling_rounds": 1, "validate_every": max(1, steps // 50), "advanced": {"validation_rollouts": 1},
        "interventions": [
            {"when": {"every_steps": max(1, steps // 8)}, "do": "reset"},
            {"when": {"plateau": 4}, "do": "reset"},
            {"when": {"truncated_above": 0.02}, "do": {"unfinished_penalty": 0.5}},
            {"when": at(0.002), "do": {"mix": {"math": 3, "words": 1}}},
            {"when": at(0.003), "do": {"max_response_tokens": 12}},
            {"when": at(0.004), "do": {"rollouts": 5, "reset": True}},
            {"when": at(1), "do": "stop"},
        ],
    }  # fmt: skip
    return {
        "name": "endurance",
        "model": {
            "prompt": {"math": "{prompt}"},
            "from_config": {"hidden_size": 32, "intermediate_size": 48, "vocabulary": 320, "max_positions": 64},
        },
        "training": {
            "checkpoint_every": max(1, steps // 40),
            "warm_start": {"batch_size": 16, "learning_rate": 1e-2},
            "hardware": {"processes": ranks, "micro_batch_tokens": 1000, "rollout_batch": 64},
            "stages": [stage],
        },
        "evaluation": {"benchmarks": [{"name": "sums", "domain": "math", "path": "held_out.parquet"}]},
    }  # fmt: skip


def start(work: Path, settings: Recipe, **spec: Any) -> subprocess.Popen[bytes]:
    """The launcher of what `spec` says, with the recipe `settings`."""
    work.mkdir(parents=True, exist_ok=True)
    content = TrainingSpec.of(settings, work_dir=work / "out", **spec)
    (work / "spec.json").write_text(content.model_dump_json())
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", "ratchet.training.launch", str(work / "spec.json")]
    with open(work / "log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def finish(process: subprocess.Popen[bytes], work: Path) -> None:
    if process.wait() != 0:
        raise SystemExit(f"a run failed: {work / 'log'}\n{(work / 'log').read_text(errors='replace')[-2000:]}")


def lines(work: Path, name: str) -> list[dict[str, Any]]:
    path = work / "out" / name
    return [line for _, line in read_lines(path)] if path.is_file() else []


def result(work: Path) -> tuple[bytes, list[dict[str, Any]], list[dict[str, Any]]]:
    clocks = {"time", "seconds", "tokens_per_second", "memory_gb", "cpu_percent", "gpu_percent"}
    metrics = [
        {k: v for k, v in line.items() if k not in clocks and not k.endswith("_seconds")}
        for line in lines(work, "metrics.jsonl")
    ]
    return (work / "out" / "model" / "model.safetensors").read_bytes(), metrics, lines(work, "decisions.jsonl")


def warm_started(home: Path, settings: Recipe, problems: Sequence[Problem]) -> Path:
    """The recipe's small model, trained on the right answers."""
    traces = [{"prompt": p.prompt, "response": f"\\boxed{{{p.answer}}}"} for p in problems] * 16
    pq.write_table(pa.Table.from_pylist(traces), home / "traces.parquet")
    warm = home / "warm"
    finish(start(warm, settings, kind="warm_start", traces=home / "traces.parquet"), warm)
    return warm / "out" / "model"


def used(work: Path) -> dict[str, float]:
    """MB that the ranks have in memory, and that is the own of all that runs below them, which judges; the ranks' CPU
    seconds so far."""
    used = dict.fromkeys(("ranks", "judges", "cpu"), 0.0)
    with suppress(psutil.NoSuchProcess):  # the run ends while we look
        started = [psutil.Process(pid) for pid in alive(work)]
        launchers = {process.ppid() for process in started}
        for rank in (process for process in started if process.pid not in launchers):
            used["ranks"] += rank.memory_info().rss / 1e6
            used["cpu"] += sum(rank.cpu_times()[:2])
            for judge in rank.children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # it is done with its answer
                    used["judges"] += judge.memory_full_info().uss / 1e6  # without pages shared with its parent
    return used


def watch(process: subprocess.Popen[bytes], work: Path, seen: Path) -> None:
    """Write what it uses against steps while it runs: a line each half second."""
    with open(seen, "a") as file:
        while process.poll() is None:
            time.sleep(0.5)
            if done := steps_done(work):
                file.write(json.dumps({"step": done, **used(work)}) + "\n")
                file.flush()


def steps_done(work: Path) -> int:
    """The step of the last whole line of its metrics."""
    return max((line["step"] for line in lines(work, "metrics.jsonl")), default=0)


def ends(values: Sequence[tuple[int, float]], steps: int) -> tuple[list[float], list[float]]:
    """Values, of (step, value), of the first tenth of the run and of the last, without the end, when the ranks go."""
    return [v for s, v in values if s <= steps / 10], [v for s, v in values if 0.9 * steps < s < steps]


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())


def report(work: Path, steps: int) -> bool:
    seen = [json.loads(line) for line in (work / "memory.jsonl").read_text().splitlines()]
    flat = True
    for who in ("ranks", "judges"):
        first, last = ends([(line["step"], line[who]) for line in seen], steps)
        growth = fmean(last) / fmean(first) - 1
        flat &= growth <= FLAT
        print(f"memory of {who}: {fmean(first):.1f} MB, then {fmean(last):.1f} MB ({growth:+.1%})")
    steps_seen = ends([(line["step"], line["step"]) for line in seen], steps)
    cpu_seen = ends([(line["step"], line["cpu"]) for line in seen], steps)
    per_step = [1e3 * (cpu[-1] - cpu[0]) / (at[-1] - at[0]) for cpu, at in zip(cpu_seen, steps_seen, strict=True)]
    print(f"CPU time of a step: {per_step[0]:.1f} ms, then {per_step[1]:.1f} ms")
    metrics = lines(work, "metrics.jsonl")
    for name in ("seconds", "rollout_seconds", "update_seconds", "checkpoint_seconds"):
        first, last = ends([(line["step"], line[name]) for line in metrics if line[name]], steps)
        print(f"{name}, median: {1e3 * median(first):.1f} ms, then {1e3 * median(last):.1f} ms")
    for path in sorted((work / "out").iterdir()):
        print(f"{path.name}: {size(path) / 1e6:.2f} MB")
    print("checkpoints:", ", ".join(path.name for path in sorted((work / "out" / "checkpoints").glob("step-*"))))
    for line in lines(work, "decisions.jsonl"):
        print(f"after step {line['step']}: {line['rule']} {line.get('cause', line.get('evidence'))}")
    return flat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path, help="where the runs are kept, to go on in them")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; the same command goes on"))
    os.environ |= {OWN_DOMAINS: "benchmarks.endurance:Words", IMPORT_PATH: str(ROOT)}
    home = arguments.home.absolute()
    settings = Recipe.model_validate(recipe(arguments.steps, arguments.ranks))
    home.mkdir(parents=True, exist_ok=True)
    files = {"math": home / "math.parquet", "words": home / "words.parquet"}
    for file, problems in zip(files.values(), (SUMS, WORDS), strict=True):
        pq.write_table(to_table(problems), file)
    model = home / "warm" / "out" / "model"
    if not model.is_dir():
        warm_started(home, settings, SUMS[:50])
    held_out = home / "held_out.parquet"
    pq.write_table(to_table(SUMS[::7]), held_out)
    spec = {
        "kind": "stage", "stage": "long", "model_dir": str(model), "validation": {"sums": held_out}, "problems": files,
    }  # fmt: skip
    quiet, killed = home / "quiet", home / "killed"
    if not (quiet / "out" / "model").is_dir():
        process = start(quiet, settings, **spec)
        try:
            watch(process, quiet, quiet / "memory.jsonl")
        finally:
            process.kill()  # if this process was asked to end; its ranks follow
        finish(process, quiet)
    if not (killed / "out" / "model").is_dir():
        moments = random.Random(0)
        for step in sorted(moments.randrange(1, arguments.steps) for _ in range(arguments.kills)):
            if steps_done(killed) >= step:
                continue
            process = start(killed, settings, **spec)
            while process.poll() is None and steps_done(killed) < step:
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            process.wait()
            print(f"killed in step {steps_done(killed) + 1}", flush=True)
            while alive(killed):
                time.sleep(0.05)
        finish(start(killed, settings, **spec), killed)
    flat, same = report(quiet, arguments.steps), result(quiet) == result(killed)
    print("killed and quiet are", "bit for bit the same" if same else "DIFFERENT")
    raise SystemExit(0 if flat and same else 1)


if __name__ == "__main__":
    main()
