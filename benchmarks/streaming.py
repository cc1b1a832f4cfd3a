"""Peak memory of reading, normalising and the rules over files of short rows: it must not grow with the rows.

Each size runs in a process of its own, as the pipeline does it: batch by batch, kept and rejected written as they come.

    python benchmarks/streaming.py --rows 100000 1000000
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

VERBS = ("Find", "Compute", "What is", "Determine", "Evaluate")


def write_rows(path: Path, rows: int) -> None:
    rng = random.Random(0)
    with path.open("w") as file:
        for _ in range(rows):
            a, b, c = rng.randrange(10**6), rng.randrange(10**6), rng.randrange(10**3)
            statement = f"{rng.choice(VERBS)} the remainder of ${a} \\cdot {b}$ on division by ${c + 2}$."
            file.write(json.dumps({"problem": statement, "answer": str(a * b % (c + 2))}) + "\n")


def stream(path: Path, directory: Path) -> None:
    from ratchet.data_curation.domains import plan_of
    from ratchet.data_curation.readers import read_files
    from ratchet.data_curation.rules import filter_by_rules
    from ratchet.infra.artifacts import Draft
    from ratchet.infra.recipe.model import Rules
    from ratchet.tasks.curation import kept_batches
    from ratchet.tasks.step import write_splits

    normalised, ruled = Draft(directory / "normalise"), Draft(directory / "rules")
    for draft in (normalised, ruled):
        draft.path.mkdir()
    imports = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    write_splits(normalised, read_files([path], "math"), max_rejected=1.0)
    tables = kept_batches(normalised.path / "kept.parquet")
    write_splits(ruled, (filter_by_rules(table, plan_of("math").rules, Rules()) for table in tables), max_rejected=1.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"kept": ruled.counts["kept"], "imports_mb": imports / 1024, "peak_mb": peak / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        stream(arguments.one / "rows.jsonl", arguments.one)
        return
    print("| rows | file, MB | kept | memory after imports, MB | peak, MB | CPU, s |\n|---:|---:|---:|---:|---:|---:|")
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "rows.jsonl"
            write_rows(path, rows)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            command = [sys.executable, __file__, "--one", directory]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            print(
                f"| {rows:,} | {path.stat().st_size / 1e6:.0f} | {found['kept']:,} | {found['imports_mb']:.0f} "
                f"| {found['peak_mb']:.0f} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
