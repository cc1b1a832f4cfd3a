"""Memory and time before a teacher's first answer, and at the end: problems of 400 characters, eight attempts each.

    python benchmarks/teacher_memory.py [--problems 200000] [--first]

`--first` stops at the first request. The answers are made on the spot: what is measured is everything around them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA, to_table
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.data_curation.base.teacher_engine import TeacherEngine
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.data_curation.teacher.attempts import collect_attempts, problem_prompts
from ratchet.tasks.row_steps import row_batches
from ratchet.tasks.teacher import PROMPTS_AT_ONCE

STATEMENT = "Let $ABC$ be a triangle with sides 13, 14 and 15. " * 8
ROWS = 4096


def megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmRSS in /proc/self/status")


class Instant(TeacherEngine):
    """Answers at once. Says what there was before the first answer."""

    def __init__(self, first_only: bool) -> None:
        self.first_only, self.began, self.before = first_only, time.monotonic(), megabytes()

    @classmethod
    def for_teacher(cls, teacher: Teacher) -> Instant:
        return cls(False)

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        for number, request in enumerate(requests):
            if not number:
                self.report("first request")
                if self.first_only:
                    raise SystemExit
            yield Completion(request.key, "So it is \\boxed{84}.", "stop", 10, prompt_tokens=100)

    def report(self, when: str) -> None:
        print(f"{when}: {megabytes() - self.before:+.0f} MB after {time.monotonic() - self.began:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200_000)
    parser.add_argument("--first", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        kept = Path(work) / "kept.parquet"
        with pq.ParquetWriter(kept, PROBLEM_SCHEMA) as writer:
            for start in range(0, given.problems, ROWS):
                numbers = range(start, min(given.problems, start + ROWS))
                rows = [{"problem_id": f"p{n}", "domain": "math", "prompt": f"{n}: {STATEMENT}"} for n in numbers]
                writer.write_table(to_table(rows))
        prompts = problem_prompts(lambda: row_batches(kept, PROMPTS_AT_ONCE), PromptFormat())
        engine = Instant(given.first)
        print(f"{given.problems:,} problems, {engine.before:.0f} MB after imports")
        collect_attempts(
            prompts, engine, Teacher(model="m"), Path(work) / "journal.jsonl", 0, Path(work) / "attempts.parquet"
        )
        engine.report("end")


if __name__ == "__main__":
    main()
