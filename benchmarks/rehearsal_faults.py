"""Mutation testing of rehearsals: each fault of `rehearsal_faults.yaml` is planted in a copy of the code or of the
sample rows, one at a time, and the recipe there is rehearsed: the exit code must be 1, and the fault's mechanism
among those that were not seen. Writes docs/facts/rehearsal_faults.json, and docs/evidence/rehearsals.md from it.

    python -m benchmarks.rehearsal_faults HOME                 # all
    python -m benchmarks.rehearsal_faults HOME --check         # only that each can be planted, in seconds
    python -m benchmarks.rehearsal_faults HOME --only plateau  # names that contain one of these; keeps other results

Without a fault everything must be seen, and the small model learns once. Exits with 1 when a fault goes unnoticed that
should not.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.planted_faults import Copy, Fault, misfit
from docs.tools.rehearsals import FAULTS, write_page
from ratchet.infra.recipe import load_recipe
from ratchet.rehearsal.layouts import layouts, write_layout
from ratchet.rehearsal.mechanisms import Evidence, mechanisms
from ratchet.rehearsal.smaller import smaller

TABLE = Path(__file__).with_suffix(".yaml")
PREPARED = ("hub", "answers.jsonl", "prepared.json")


def rehearsed(copy: Copy, recipe: Path, home: Path, *options: str) -> tuple[int, list[str], str]:
    """Exit code, mechanisms that were not seen, and what was printed last."""
    run = copy.python("-m", "ratchet.cli.main", "rehearse", str(recipe), "--home", str(home), *options)
    table = home / "rehearsals" / recipe.stem / "rehearsal.json"
    rows = json.loads(table.read_text()) if table.is_file() else []
    return run.returncode, [row["name"] for row in rows if not row["seen"]], (run.stdout + run.stderr)[-1500:]


def code_fault(fault: Mapping[str, Any]) -> Fault:
    return Fault(fault["name"], fault["file"], fault["old"], fault["new"], ())


def misfits(faults: Sequence[Mapping[str, Any]], recipe: Path) -> Iterator[str]:
    """Faults that cannot be planted, or whose mechanism the recipe does not ask for."""
    small, _ = smaller(load_recipe(recipe), {"math": 26, "code": 27}, 2, {"kind": "transformers"})
    asked = {mechanism.name for mechanism in mechanisms(small, Evidence(recipe.parent, []))}
    for fault in faults:
        if "data" in fault:
            owner, name, file = fault["data"].split("/", 2)
            if file not in layouts()[f"{owner}/{name}"]:
                yield f"{fault['name']}: the sample rows have no {fault['data']}"
        elif reason := misfit(code_fault(fault)):
            yield reason
        if ("unseen" in fault) == ("reason" in fault):
            yield f"{fault['name']}: it has either `unseen` or a `reason`"
        elif "unseen" in fault and fault["unseen"] not in asked:
            yield f"{fault['name']}: the recipe does not ask for {fault['unseen']!r}"


def tried(fault: Mapping[str, Any], copy: Copy, recipe: Path, base: Path, home: Path) -> dict[str, Any]:
    """Raises ValueError where the fault does not fit."""
    inside = Path("rehearsals") / recipe.stem
    (home / inside).mkdir(parents=True)
    for name in PREPARED:
        source = base / inside / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, home / inside / name)
    if data := fault.get("data"):
        owner, name, file = data.split("/", 2)
        place = home / "samples/datasets" / owner / name
        write_layout(f"{owner}/{name}", place)
        if "old" in fault:
            (place / file).write_text((place / file).read_text().replace(fault["old"], fault["new"]))
        else:
            (place / file).rename(place / "elsewhere.jsonl")
        code, unseen, end = rehearsed(copy, recipe, home, "--rows", str(home / "samples"))
    else:
        file = copy.root / fault["file"]
        whole = file.read_text()
        file.write_text(code_fault(fault).planted(copy.root))
        try:
            code, unseen, end = rehearsed(copy, recipe, home)
        finally:
            file.write_text(whole)
    if not unseen and code:
        print(end)
    wanted = fault.get("unseen")
    caught = code == 1 and (wanted in unseen if wanted else bool(unseen))
    where = fault.get("data") or fault["file"]
    return {"where": where, "caught": caught, "unseen": unseen, "reason": fault.get("reason")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORDS")
    parser.add_argument("--check", action="store_true", help="rehearse nothing: can every fault still be planted?")
    arguments = parser.parse_args()
    table = yaml.safe_load(TABLE.read_text())
    faults = [fault for fault in table["faults"] if any(words in fault["name"] for words in arguments.only)]
    home = arguments.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    recipe = home / f"{table['recipe']['name']}.yaml"
    recipe.write_text(yaml.safe_dump(table["recipe"]))
    if arguments.check:
        sys.exit("\n".join(misfits(faults, recipe)) or 0)
    results = json.loads(FAULTS.read_text()) if FAULTS.is_file() else {}
    with tempfile.TemporaryDirectory(dir=home) as directory:
        copy = Copy(Path(directory))
        code, unseen, end = rehearsed(copy, recipe, home / "base")
        if code or unseen:
            sys.exit(f"without a fault: exit code {code}, not seen: {', '.join(unseen) or 'nothing'}\n{end}")
        for fault in faults:
            place = home / "fault"
            shutil.rmtree(place, ignore_errors=True)
            results[fault["name"]] = result = tried(fault, copy, recipe, home / "base", place)
            print(f"{'caught' if result['caught'] else 'NOT CAUGHT'}: {fault['name']}", flush=True)
            FAULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    write_page()
    missed = [fault["name"] for fault in faults if "unseen" in fault and not results[fault["name"]]["caught"]]
    if missed:
        sys.exit(f"not caught: {', '.join(missed)}")


if __name__ == "__main__":
    main()
