"""How much of published files is read: rows, problems, and problems with an answer or with tests.

    python benchmarks/readers.py --domain math FILE…

A file that is refused is shown with the reason, and with its columns.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from ratchet.data_curation.read import read_problems
from ratchet.verifiers.errors import RatchetError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--domain", default="math")
    arguments = parser.parse_args()
    column = "tests" if arguments.domain == "code" else "answer"
    total = Counter[str]()
    print(f"{'rows':>8} {'read':>8} {'with ' + column:>12}")
    for file in arguments.files:
        try:
            split = read_problems(file, arguments.domain)
        except RatchetError as error:
            print(f"refused: {error}")
            continue
        lost = Counter(json.loads(evidence)["reason"] for evidence in split.rejected["evidence"].to_pylist())
        counts = split.summary["rows_in"], len(split.kept), len(split.kept) - split.kept[column].null_count
        total.update(dict(zip(("rows", "read", column), counts, strict=True)))
        shown = [f"({number} {reason[:60]})" for reason, number in lost.items()]
        print(f"{counts[0]:8,} {counts[1]:8,} {counts[2]:12,}  {file.name}", *shown)
    print(f"{total['rows']:8,} {total['read']:8,} {total[column]:12,}  in all")


if __name__ == "__main__":
    main()
