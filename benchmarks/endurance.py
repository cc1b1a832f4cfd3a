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
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.recipe import Recipe
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
            "grow": {"hidden_size": 32, "intermediate_size": 48, "vocabulary": 320, "max_positions": 64},
        },
        "training": {
            "checkpoint_every": max(1, steps // 40),
            "warm_start": {"batch_size": 16, "learning_rate": 1e-2},
            "hardware": {"processes": ranks, "micro_batch_tokens": 1000, "rollout_batch": 64},
            "stages": [stage],
        },
        "evaluation": {"benchmarks": [{"name": "sums", "domain": "math", "path": "held_out.parquet"}]},
    }  # fmt: skip


def start(work: Path, settings: dict[str, Any], **spec: Any) -> subprocess.Popen[bytes]:
    """The launcher of what `spec` says, with the recipe `settings`."""
    work.mkdir(parents=True, exist_ok=True)
    resolved = Recipe.model_validate(settings).model_dump(mode="json")
    empty = dict.fromkeys(("stage", "model_dir", "traces", "pass_rates")) | {"problems": {}, "validation": {}}
    content = {**empty, "recipe": resolved, "work_dir": str(work / "out"), **spec}
    (work / "spec.json").write_text(json.dumps(content))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", "ratchet.training.launch", str(work / "spec.json")]
    with open(work / "log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def finish(process: subprocess.Popen[bytes], work: Path) -> None:
    if process.wait() != 0:
        raise SystemExit(f"a run failed: {work / 'log'}\n{(work / 'log').read_text(errors='replace')[-2000:]}")


def lines(work: Path, name: str) -> list[dict[str, Any]]:
    path = work / "out" / name
    whole = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return [json.loads(line) for line in whole]


def result(work: Path) -> tuple[bytes, list[dict[str, Any]], list[dict[str, Any]]]:
    clocks = {"time", "seconds", "tokens_per_second", "memory_gb", "cpu_percent", "gpu_percent"}
    metrics = [
        {k: v for k, v in line.items() if k not in clocks and not k.endswith("_seconds")}
        for line in lines(work, "metrics.jsonl")
    ]
    return (work / "out" / "model" / "model.safetensors").read_bytes(), metrics, lines(work, "decisions.jsonl")


def warm_started(home: Path, settings: dict[str, Any], problems: Sequence[Problem]) -> Path:
    """The recipe's small model, trained on the right answers."""
    traces = [{"prompt": p.prompt, "response": f"\\boxed{{{p.answer}}}"} for p in problems] * 16
    pq.write_table(pa.Table.from_pylist(traces), home / "traces.parquet")
    warm = home / "warm"
    finish(start(warm, settings, kind="warm_start", traces=str(home / "traces.parquet")), warm)
    return warm / "out" / "model"


def used(work: Path) -> dict[str, float]:
    """MB that the ranks have in memory, and that is the own of all that runs below them, which judges; the ranks' CPU
    seconds so far."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended while we looked
            continue
    started = set(alive(work))
    ranks = started - {parents.get(pid) for pid in started}  # the launcher is their parent
    below = level = ranks
    while level := {pid for pid, parent in parents.items() if parent in level} - below:
        below = below | level
    return {
        "ranks": sum(mb(pid, "Rss") for pid in ranks),
        "judges": sum(mb(pid, "Private_") for pid in below - ranks),
        "cpu": sum(map(cpu_seconds, ranks)),
    }


def cpu_seconds(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended while we looked
        return 0.0
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def mb(pid: int, kind: str) -> float:
    """`Private_` leaves out the pages that a process shares with what it was forked from."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended while we looked
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1000


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
    path = work / "out" / "metrics.jsonl"
    if not path.is_file():
        return 0
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 20_000))
        whole = file.read().rpartition(b"\n")[0].rpartition(b"\n")[2]
    return json.loads(whole)["step"] if whole else 0


def ends(values: Sequence[tuple[int, float]], steps: int) -> tuple[list[float], list[float]]:
    """Of (step, value): the first tenth of the run, and the last, but not the end, when the ranks go."""
    return [v for s, v in values if s <= steps / 10], [v for s, v in values if 0.9 * steps < s < steps]


def size(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


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
    parser.add_argument("--only", choices=("quiet", "killed"), help="one of the runs, without the comparison")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; the same command goes on"))
    os.environ |= {OWN_DOMAINS: "benchmarks.endurance:Words", IMPORT_PATH: str(ROOT)}
    home, settings = arguments.home.absolute(), recipe(arguments.steps, arguments.ranks)
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
        "kind": "stage", "stage": "long", "model_dir": str(model), "validation": {"sums": str(held_out)},
        "problems": {name: str(file) for name, file in files.items()},
    }  # fmt: skip
    quiet, killed = home / "quiet", home / "killed"
    if arguments.only != "killed" and not (quiet / "out" / "model").is_dir():
        process = start(quiet, settings, **spec)
        try:
            watch(process, quiet, quiet / "memory.jsonl")
        finally:
            process.kill()  # if this process was asked to end; its ranks follow
        finish(process, quiet)
    if arguments.only != "quiet" and not (killed / "out" / "model").is_dir():
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
    if arguments.only != "killed":
        flat = report(quiet, arguments.steps)
    if arguments.only is None:
        same = result(quiet) == result(killed)
        print("killed and quiet are", "bit for bit the same" if same else "DIFFERENT")
        raise SystemExit(0 if flat and same else 1)


if __name__ == "__main__":
    main()
