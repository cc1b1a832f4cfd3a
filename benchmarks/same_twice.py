"""Curation twice, in two homes: on a quiet machine, and on one with a busy loop on each core and other worker counts.

    python -m benchmarks.same_twice [RECIPE] [--set KEY=VALUE …] [--keep DIRECTORY]

Every step of every domain's curation must give the same: key, rows, counts, every file by its hash (but for pages with
seconds in them). To the code problems come some whose programs need time and memory near their limits, measured here:
these are what a busy machine judges otherwise. The exit code is 1 if anything differs. Takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratchet.infra.recipe import load_recipe
from ratchet.infra.store.artifacts import Artifact, ArtifactStore

MINI = str(Path(__file__).resolve().parent.parent / "tests" / "flows" / "mini.yaml")
RATCHET = [sys.executable, "-P", "-m", "ratchet.cli.main"]
BUSY = [sys.executable, "-c", "while True: pass"]
PAGES = ("card.md", "report.html")
"""Files with seconds in them, which no step reads."""
LIMIT_S = 1.0
NEAR = (0.1, 0.17, 0.22, 0.6, 0.85)
"""CPU seconds of a test: around the short limit of mutants, and below the problem's."""


def loops_per_second() -> float:
    count, began = 2_000_000, time.process_time()
    for _ in range(count):
        pass
    return count / (time.process_time() - began)


def near_their_limits() -> list[dict[str, Any]]:
    """Code problems in the layout of TACO; the last one's mutants grow without end, or not at all."""
    rate = loops_per_second()
    growing = "def solve(xs):\n    n = 0\n    while n < len(xs):\n        n += 1\n        xs = xs + []\n    return n\n"
    programs = {f"wait number {number} of": _counting(int(rate * s)) for number, s in enumerate(NEAR, 1)}
    programs["step by step,"] = growing
    return [_row(words, program) for words, program in programs.items()]


def _counting(loops: int) -> str:
    return f"def solve(xs):\n    for _ in range({loops}):\n        pass\n    return len(xs) + 0\n"


def _row(words: str, program: str) -> dict[str, Any]:
    cases = [[], [4], [7, 1], [2, 2, 2], [5, 6, 7, 8]]
    tests = {"fn_name": "solve", "inputs": [[xs] for xs in cases], "outputs": [len(xs) for xs in cases]}
    return {
        "question": f"Make solve(xs), which after {words} counting to a large number gives how many entries xs has.",
        "solutions": json.dumps([program]), "starter_code": "", "input_output": json.dumps(tests),
        "difficulty": "HARD", "name": "None", "source": "hackerrank", "tags": "[]",
        "url": f"https://example.org/{words.replace(' ', '-')}", "date": "2016-11-13", "picture_num": "None",
        "time_limit": f"{LIMIT_S} seconds", "memory_limit": "256.0 megabytes",
    }  # fmt: skip


def curate(home: Path, recipe: str, domains: list[str], options: list[str], cores: set[int]) -> None:
    for domain in domains:
        command = [*RATCHET, "curate", domain, recipe, "--home", str(home), *options]
        log = home.with_suffix(".log")
        with open(log, "ab") as file:
            ended = subprocess.run(
                command, stdout=file, stderr=file, preexec_fn=lambda: os.sched_setaffinity(0, cores)
            ).returncode
        if ended:
            raise SystemExit(f"curation of {domain} ended with {ended}: {log}")


def made(home: Path) -> dict[str, Artifact]:
    return {f"{artifact.kind}/{artifact.name}": artifact for artifact in ArtifactStore(home / "artifacts").all()}


def differences(quiet: Artifact, busy: Artifact) -> list[str]:
    """The parts of two artifacts that differ."""
    manifests = [artifact.manifest for artifact in (quiet, busy)]
    parts = [
        {
            "key": manifest.key, "counts": manifest.counts, "summary": getattr(manifest, "summary", None),
            **{name: facts.sha256 for name, facts in manifest.files.items() if name not in PAGES},
        }
        for manifest in manifests
    ]  # fmt: skip
    return sorted(name for name in parts[0].keys() | parts[1].keys() if parts[0].get(name) != parts[1].get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default=MINI)
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="of the recipe")
    parser.add_argument("--keep", type=Path, help="the directory of both homes")
    arguments = parser.parse_args()
    directory = (arguments.keep or Path(tempfile.mkdtemp())).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    curation = load_recipe(arguments.recipe, arguments.overrides).curation
    options = [word for override in arguments.overrides for word in ("--set", override)]
    if "code" in curation:
        rows = directory / "near_their_limits.jsonl"
        if not rows.exists():
            rows.write_text("".join(json.dumps(row) + "\n" for row in near_their_limits()))
        options += ["--set", f"curation.code.inputs={json.dumps([*curation['code'].inputs, str(rows)])}"]
    cores = os.sched_getaffinity(0)
    first = {min(cores)}
    curate(directory / "quiet", arguments.recipe, [*curation], [*options, "--set", "workers=1"], first)
    busy = [subprocess.Popen(BUSY) for _ in cores]
    try:
        curate(directory / "busy", arguments.recipe, [*curation], [*options, "--set", "workers=3"], cores)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    quiet, loaded = made(directory / "quiet"), made(directory / "busy")
    different = 0
    print("| step | seconds quiet | busy | |\n|---|---:|---:|---|")
    for name in {**quiet, **loaded}:
        if name not in quiet or name not in loaded:
            parts, seconds = ["there only once"], ("", "")
        else:
            parts = differences(quiet[name], loaded[name])
            seconds = quiet[name].manifest.seconds, loaded[name].manifest.seconds
        different += bool(parts)
        print(f"| {name} | {seconds[0]} | {seconds[1]} | {', '.join(parts) or 'the same'} |")
    print(f"\n{len(quiet)} steps, {different} of them different{f': {directory}' if different else ''}")
    if not arguments.keep and not different:
        shutil.rmtree(directory)
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
