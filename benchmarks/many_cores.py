"""Curation of many rows on one core and on several: what each step costs, and whether the files are alike.

    python benchmarks/many_cores.py DATA --rows 1000000 --workers 1 2

The rows are the published problems with their solutions, each with new numbers, half of them with a sentence
of another problem. `ratchet curate math` runs on them in a home of its own for each number of workers, one after the
other. Memory is what the command and all its processes hold together at most (anonymous pages: no file can give them
back), looked at four times a second; CPU is their processor time, which tells what other work on the machine took.
"""

import argparse
import hashlib
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import psutil

STEPS = ("normalise", "rules", "decontaminate", "deduplicate", "curated")
WHOLE = "whole command"
ROWS = ("math_raw/math_train.json", "math_raw/aime_1983_2023.json")
ITEMS = ("math500.json", "aime24.json", "amc22_23.json", "olympiad_bench.json")


def write_rows(data: Path, file: Path, count: int) -> None:
    draw = random.Random(0)
    rows = [row for name in ROWS for row in json.loads((data / name).read_text())]

    def another(number: re.Match[str]) -> str:
        return "".join(draw.choice("123456789") for _ in number[0])

    with file.open("w") as lines:
        for _ in range(count):
            row = dict(draw.choice(rows))
            statement = next(name for name in ("problem", "question", "Question") if name in row)
            row[statement] = re.sub(r"\d+", another, row[statement])
            if draw.random() < 0.5:
                other = draw.choice(rows)
                text = other.get("problem") or other.get("question") or other["Question"]
                row[statement] += " " + draw.choice(text.split(". "))
            lines.write(json.dumps(row) + "\n")


@dataclass
class Cost:
    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0


def curate(recipe: Path, home: Path, workers: int) -> dict[str, Cost]:
    """What each step and the whole command cost."""
    command = [sys.executable, "-m", "ratchet.cli.main", "curate", "math", str(recipe), "--home", str(home)]
    started, before, cpu, costs = time.monotonic(), 0.0, 0.0, defaultdict[str, Cost](Cost)
    log = home.parent / f"{workers}.log"
    with log.open("w") as output:
        process = psutil.Popen([*command, "--set", f"workers={workers}"], stdout=output, stderr=output)
    while process.poll() is None:
        time.sleep(0.25)
        cpu, memory = held(process)
        doing = re.findall(r"^… (\w+) math$", log.read_text(), re.MULTILINE)
        for name in (doing[-1] if doing else "start", WHOLE):
            costs[name].cpu += cpu - before
            costs[name].peak = max(costs[name].peak, memory)
        before = max(before, cpu)
    printed = log.read_text()
    if process.returncode:
        raise SystemExit(printed)
    costs[WHOLE].seconds = time.monotonic() - started
    for name, seconds in re.findall(r"✓ (\w+) math \(([\d.]+) s\)", printed):
        costs[name].seconds = float(seconds)
    return costs


def held(process: psutil.Process) -> tuple[float, int]:
    """Processor seconds that a process and those below it have used, and the bytes that they hold."""
    seconds, held = 0.0, 0
    for one in [process, *process.children(recursive=True)]:
        try:
            seconds += sum(one.cpu_times()[:4])  # its own, and of children that have ended
            status = Path(f"/proc/{one.pid}/status").read_text()
        except (OSError, psutil.Error):
            continue  # it has just ended
        held += 1024 * sum(map(int, re.findall(r"RssAnon:\s+(\d+)", status)))
    return seconds, held


def digest(home: Path) -> str:
    """Of what each step kept and rejected."""
    whole = hashlib.sha256()
    for step in STEPS:
        for file in sorted(home.glob(f"artifacts/problems/math-{step}-*/*.parquet")):
            whole.update(file.read_bytes())
    return whole.hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds math_raw/ and benchmarks/")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(arguments.data, folder / "rows.jsonl", arguments.rows)
        items = [str((arguments.data / "benchmarks" / item).resolve()) for item in ITEMS]
        curation = {"math": {"inputs": ["rows.jsonl"], "benchmarks": items}}
        (folder / "rows.yaml").write_text(json.dumps({"name": "rows", "curation": curation}))
        print(f"{arguments.rows:,} rows, {(folder / 'rows.jsonl').stat().st_size / 1e6:,.0f} MB\n", flush=True)
        costs, files = {}, set[str]()
        for workers in arguments.workers:
            home = folder / f"home-{workers}"
            costs[workers] = curate(folder / "rows.yaml", home, workers)
            files.add(digest(home))
            print(f"{workers} workers: {costs[workers][WHOLE].seconds:.0f} s, files {digest(home)}", flush=True)
            shutil.rmtree(home)
        print(f"\n{'the same files' if len(files) == 1 else 'THE FILES DIFFER'}\n")
        named = " | ".join(f"{workers} workers, s | CPU, s | peak, MB" for workers in costs)
        print(f"| step | {named} | ratio |\n|---|{'---:|' * (3 * len(costs) + 1)}")
        for step in (*STEPS, WHOLE):
            each = [costs[workers][step] for workers in costs]
            shown = " | ".join(f"{cost.seconds:.1f} | {cost.cpu:.1f} | {cost.peak / 2**20:,.0f}" for cost in each)
            print(f"| {step} | {shown} | {each[0].seconds / each[-1].seconds:.2f} |")


if __name__ == "__main__":
    main()
