"""Rehearse shipped recipes; write docs/facts/rehearsals.json, and docs/evidence/rehearsals.md from it.

python -m docs.tools.rehearsals HOME acereason-7b prorl-1.5b   # run these two, keep the others' results
python -m docs.tools.rehearsals HOME prorl-1.5b --page         # take what HOME has of it, run nothing
"""

import argparse
import json
import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet.infra.recipe import load_recipe

DOCS = Path(__file__).resolve().parents[1]
RECORD, PAGE = DOCS / "facts" / "rehearsals.json", DOCS / "evidence" / "rehearsals.md"
FAULTS = DOCS / "facts" / "rehearsal_faults.json"
VERSION = 4
"""Of the rehearsal: raised when the bundled rows, the small model or what is made smaller change."""
WHOLE = ("acereason-7b", "prorl-1.5b")
"""Recipes whose tables are on the page in full."""
INTRODUCTION = """# What was rehearsed

- Every mechanism of these recipes was seen, but for the last column, in 27 s to 11 minutes each on two CPU cores.
- Of 16 planted faults a rehearsal notices 15; the cap of importance weights needs a test of values.
- A mechanism that is seen happened. That it is *right* is what the tests and [results](results.md) show.

`ratchet rehearse RECIPE` runs a recipe end to end, small, and looks for each mechanism that it asks for
([how](../howto/rehearse.md)), here with the bundled rows. CPU seconds are of all processes together; the other seconds
depend on what else the machine does, which was a lot.

This page is made by `python -m docs.tools.rehearsals HOME RECIPE…`.
"""
OF_EARLIER = """
Results marked "earlier" are of a rehearsal before its small model came to learn fewer and shorter lessons.
"""
OF_FAULTS = """
## Faults that were planted

`python -m benchmarks.rehearsal_faults HOME` plants one fault at a time in a copy of the code or of the rows, and
rehearses a recipe that has every mechanism concerned (`benchmarks/rehearsal_faults.yaml`). Caught: the exit code is 1,
and the fault's mechanism is among those not seen.

| fault | in | caught | not seen |
|---|---|---|---|
"""


def record(home: Path, log: str, cpu_seconds: float | None) -> dict[str, Any]:
    """Of a finished rehearsal: its seconds, and its mechanisms with the evidence. Artifacts' names are its own."""
    rows = json.loads((home / "rehearsal.json").read_text())
    seconds = re.findall(r"mechanisms seen in (\d+) s", log)
    return {
        "version": VERSION,
        "seconds": int(seconds[-1]),
        "cpu_seconds": cpu_seconds and round(cpu_seconds),
        "mechanisms": {row["name"]: {"seen": row["seen"], "evidence": row["evidence"]} for row in rows},
    }


def page(results: Mapping[str, Mapping[str, Any]], faults: Mapping[str, Mapping[str, Any]]) -> str:
    earlier = {name for name, result in results.items() if result.get("version") != VERSION}
    lines = [INTRODUCTION + (OF_EARLIER if earlier else "")]
    lines += ["| recipe | seen | seconds | CPU seconds | not seen |", "|---|---|---|---|---|"]
    for name, result in sorted(results.items()):
        mechanisms = result["mechanisms"]
        unseen = [mechanism for mechanism, row in mechanisms.items() if not row["seen"]]
        seen = f"{len(mechanisms) - len(unseen)} of {len(mechanisms)}"
        seconds = f"{result['seconds']} | {result.get('cpu_seconds') or '–'}"
        mark = " (earlier)" if name in earlier else ""
        lines.append(f"| {name}{mark} | {seen} | {seconds} | {', '.join(unseen) or 'none'} |")
    if faults:
        lines.append(OF_FAULTS.rstrip("\n"))
    for name, fault in faults.items():
        shown = fault["unseen"][:4] + [f"{len(fault['unseen']) - 4} more"] * (len(fault["unseen"]) > 4)
        words = fault["reason"] if fault["reason"] and not fault["caught"] else ", ".join(shown) or "none"
        lines.append(f"| {name} | `{fault['where']}` | {'yes' if fault['caught'] else 'no'} | {words} |")
    for name in (name for name in WHOLE if name in results):
        lines += ["", f"## {name}", "", "| mechanism | seen | evidence |", "|---|---|---|"]
        for mechanism, row in results[name]["mechanisms"].items():
            cells = mechanism, "yes" if row["seen"] else "no", row["evidence"]
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _cpu_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_page() -> None:
    results, faults = (json.loads(file.read_text()) if file.is_file() else {} for file in (RECORD, FAULTS))
    PAGE.write_text(page(results, faults))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    results = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    arguments.home.mkdir(parents=True, exist_ok=True)
    for name in arguments.recipes:
        log = arguments.home / f"{name.replace('/', '-')}.log"
        home = arguments.home / "rehearsals" / load_recipe(name).name
        before = _cpu_seconds()
        if not arguments.page:
            command = [sys.executable, "-m", "ratchet.cli.main", "rehearse", name, "--home", str(arguments.home)]
            with open(log, "w") as file:
                code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
            print(f"{name}: exit code {code}, {log}", flush=True)
        if (home / "rehearsal.json").is_file() and "mechanisms seen in" in log.read_text():
            earlier = results.get(name, {}).get("cpu_seconds")
            spent = earlier if arguments.page else _cpu_seconds() - before
            results[name] = record(home, log.read_text(), spent)
    RECORD.write_text(json.dumps(dict(sorted(results.items())), indent=1, ensure_ascii=False) + "\n")
    write_page()
    results = {name: results[name] for name in arguments.recipes if name in results}
    failed = [name for name, result in results.items() if not all(row["seen"] for row in result["mechanisms"].values())]
    if failed or len(results) < len(arguments.recipes):
        sys.exit(
            f"not finished: {len(arguments.recipes) - len(results)}; not all was seen: {', '.join(failed) or 'none'}"
        )


if __name__ == "__main__":
    main()
