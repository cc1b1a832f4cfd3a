"""Scoring stored generations again, against judging the same responses alone: `python -m benchmarks.rescoring`.

30 questions, 1,000 responses each, in the store; no model is there to be asked. The first figure is a whole evaluation
(reading, judging, classes of answers, every score, writing), the second the verifier pool with the same responses in
memory. CPU seconds of this process and of what it started.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import to_table
from ratchet.evaluation.main import main as evaluate
from ratchet.evaluation.spec import Plan, load_plan, read_spec
from ratchet.verifiers.problem import problem_id
from ratchet.verifiers.serving.local_pool import VerifierPool


def spent() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def write_spec(directory: Path, questions: int, samples: int) -> Path:
    statements = [f"What is {i} times {i + 1}?" for i in range(questions)]
    rows = [
        {"problem_id": problem_id("math", text), "domain": "math", "prompt": text, "answer": str(i * (i + 1))}
        for i, text in enumerate(statements)
    ]
    pq.write_table(to_table(rows), directory / "problems.parquet")
    (directory / "model").mkdir()
    (directory / "model" / "config.json").write_text("{}")
    spec = {
        "model": {"identity": "none", "directory": str(directory / "model")}, "label": "again",
        "problems": {"sums": str(directory / "problems.parquet")}, "set_aside": {}, "prompt": {}, "contaminated": None,
        "evaluation": {
            "benchmarks": [{"name": "sums", "domain": "math", "samples": samples}],
            "pass_at": [2**i for i in range(10)],
        },
        "training": {"hardware": {"dtype": "bfloat16", "processes": 2}}, "verification": {},
        "store_dir": str(directory / "store"), "work_dir": str(directory / "work"),
    }  # fmt: skip
    path = directory / "spec.json"
    path.write_text(json.dumps(spec))
    return path


def fill_store(plan: Plan) -> list[tuple]:
    """Responses of about 6,000 characters, a third of them right; returns (problem, text) of each."""
    draw, responses = random.Random(0), []
    thinking = "Let me see whether this can be done in another way as well. " * 100
    for batch in plan.batches:
        rows = []
        for asked in batch.requests:
            answer = int(asked.problem.answer or 0) + draw.choice((0, draw.randint(1, 9), draw.randint(10, 99)))
            text = f"<think>\n{thinking}\n</think>\nIt is \\boxed{{{answer}}}."
            responses.append((asked.problem, text))
            named = dict(zip(("problem_id", "sample", "prompt"), asked.key, strict=True))
            rows.append({**named, "text": text, "finish_reason": "stop", "tokens": len(text) // 4})
        with plan.stores[batch.benchmark].locked() as store:
            store.write(rows)
    return responses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--samples", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        spec = write_spec(Path(scratch), arguments.questions, arguments.samples)
        responses = fill_store(load_plan(read_spec(spec)))
        started, begin = spent(), time.monotonic()
        with VerifierPool(2) as pool:
            for ticket, (problem, text) in enumerate(responses):
                pool.submit(ticket, problem, text)
            passed = sum(verdict.passed for _, verdict in pool.results())
        alone, alone_wall = spent() - started, time.monotonic() - begin
        started, begin = spent(), time.monotonic()
        assert evaluate(spec) == 0
        whole, whole_wall = spent() - started, time.monotonic() - begin
        scores = json.loads((Path(scratch) / "work/scores.json").read_text())["benchmarks"]["sums"]
        assert sum(c for c, _ in scores["problems"].values()) == passed
    print(f"{len(responses):,} stored responses")
    print(f"judged alone            {alone:8.2f} CPU s  {alone_wall:8.2f} s")
    print(f"evaluation from store   {whole:8.2f} CPU s  {whole_wall:8.2f} s")
    print(f"ratio                   {whole / alone:8.2f}")


if __name__ == "__main__":
    main()
