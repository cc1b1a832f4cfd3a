"""Run one evaluation as a child process: `python -m ratchet.evaluation.main SPEC.json`.

Writes into the spec's `work_dir`:
    generations.parquet   one row per response, with its verdict (`evaluation.grading.GRADED_SCHEMA`)
    questions.parquet     one row per question, with the prompt that was sent (`QUESTIONS_SCHEMA`)
    scores.json           settings, and one dictionary per benchmark (`evaluation.scores`)
    progress.jsonl        {"done", "total", "benchmark", "time"} as responses are sampled, {"note"} to the user
    status.json           written last: {"state": "finished" | "failed", "message"}
Exit code 0, or 2 for an error that the user can fix. Killed at any moment and started again, it continues, and
`generations.parquet` and `scores.json` come out the same.
"""

import json
import shutil
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.files import disk_errors, replacing, write_atomically
from ratchet.data_curation.base.metadata import cluster_of, difficulty_of, topics_of
from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.data_curation.base.prompts import user_message
from ratchet.evaluation import VERSION, sampling
from ratchet.evaluation.benchmarks import content_hash
from ratchet.evaluation.endpoint import EndpointGenerations
from ratchet.evaluation.grading import GRADED_SCHEMA, MANY_WITHOUT, Grading, without_answers
from ratchet.evaluation.sampling import SampledGenerations
from ratchet.evaluation.scores import score, without_nan
from ratchet.evaluation.spec import SEED, EvaluationPlan, load_plan, read_spec
from ratchet.infra.launching.group import STATUS
from ratchet.infra.launching.preload import load_domains
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.recipe import Verification
from ratchet.infra.store.own_code import own_code
from ratchet.verifiers.domain import Domain
from ratchet.verifiers.domains import code_of, domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import open_pool

GENERATIONS, SCORES, PROGRESS = "generations.parquet", "scores.json", "progress.jsonl"
QUESTIONS = "questions.parquet"
SAMPLING = {"temperature", "top_p", "max_tokens"}
SCORED_COLUMNS = ["benchmark", "problem_id", "sample", "finish_reason", "tokens", "outcome", "decided_by",
                  "answer_class", "empty"]  # fmt: skip
OF_PROBLEM = ("problem_id", "source", "source_id", "source_url", "released")
QUESTIONS_SCHEMA = pa.schema(
    [
        pa.field("benchmark", pa.string(), nullable=False),
        *(PROBLEM_SCHEMA.field(name) for name in (*OF_PROBLEM, "prompt")),  # prompt: the user turn
        pa.field("reference", pa.large_string()),
        pa.field("contaminated", pa.bool_()),  # null: not checked
        pa.field("topics", pa.list_(pa.string())),
        pa.field("difficulty", pa.string()),  # a number or a word
        pa.field("cluster", pa.string()),
    ]
)
"""Stored with the evaluation, so that its report needs no other file."""


def evaluate(spec_path: Path, plan: EvaluationPlan) -> None:
    """Sample, grade and score. Raises RatchetError for errors that the user can fix."""
    work_dir, training = plan.spec.work_dir, plan.spec.training
    for name in (STATUS, PROGRESS):  # of an earlier attempt, which may have ended within a line
        (work_dir / name).unlink(missing_ok=True)
    with (
        _generations(spec_path, plan) as generations,
        open_pool(training.reward_servers, plan.hardware.processes, plan.spec.verification.settings()) as pool,
    ):
        patterns = {b.name: b.advanced.answer_pattern for b in plan.spec.evaluation.benchmarks}
        grading = Grading(pool, plan.problems, plan.judged_prefixes, patterns)
        for table in generations.stream():
            grading.submit(table.to_pylist())
            generations.report(table["benchmark"][0].as_py())
        grading.collect()
        grading.require_verdicts(training.advanced.max_infra_errors)
        _write_generations(plan, map(grading.graded, generations.in_order()))
    _write_questions(work_dir / QUESTIONS, plan)
    _write_scores(work_dir, plan)
    shutil.rmtree(work_dir / "sampling", ignore_errors=True)
    with disk_errors(work_dir):
        _status(work_dir, "finished", "")


def _write_generations(plan: EvaluationPlan, graded: Iterable[pa.Table]) -> None:
    """A row group a batch: memory never holds more than one."""
    path = plan.spec.work_dir / GENERATIONS
    with (
        disk_errors(path),
        replacing(path) as file,
        pq.ParquetWriter(file, GRADED_SCHEMA, compression="zstd") as writer,
    ):
        for table in graded:
            writer.write_table(table)


def _generations(spec_path: Path, plan: EvaluationPlan) -> SampledGenerations | EndpointGenerations:
    work_dir = plan.spec.work_dir

    def report(benchmark: str) -> None:
        _progress(work_dir, {"done": generations.done, "total": generations.total, "benchmark": benchmark})

    def waiting(note: str) -> None:
        _progress(work_dir, {"note": note})

    if plan.spec.model.endpoint:
        generations = EndpointGenerations(plan, waiting, report=report)
    else:
        generations = SampledGenerations(spec_path, plan, report, waiting)
    return generations


def _asked(plan: EvaluationPlan) -> dict[str, Any]:
    """Model and settings, for the report and for comparisons."""
    spec = plan.spec
    endpoint = spec.model.endpoint
    return {
        "label": spec.label,
        "model": {"identity": spec.model.identity, "endpoint": endpoint and f"{endpoint.base_url}#{endpoint.model}"},
        # What makes scores comparable, see `evaluation.comparison.setting_differences`.
        "settings": {
            "sampling": plan.spec.evaluation.model_dump(include=SAMPLING),
            "dtype": plan.hardware.dtype if spec.model.directory else None,
            "step_version": VERSION,
        },
        "seed": SEED,
        "pass_at": list(plan.spec.evaluation.pass_at),
        "contaminated": spec.contaminated,
    }


def _write_questions(path: Path, plan: EvaluationPlan) -> None:
    rows = []
    for name, problems in plan.problems.items():
        flagged = None if plan.spec.contaminated is None else plan.spec.contaminated.get(name, ())
        rows += [
            {
                "benchmark": name,
                **{field: getattr(problem, field) for field in OF_PROBLEM},
                "prompt": user_message(problem, plan.prompts[name]),
                "reference": problem.answer,
                "contaminated": None if flagged is None else problem.problem_id in flagged,
                "topics": list(topics_of(problem)),
                "difficulty": None if (difficulty := difficulty_of(problem)) is None else str(difficulty),
                "cluster": cluster_of(problem),
            }
            for problem in problems
        ]
    with disk_errors(path):
        pq.write_table(pa.Table.from_pylist(rows, schema=QUESTIONS_SCHEMA), path)


def _write_scores(work_dir: Path, plan: EvaluationPlan) -> None:
    rows = pq.read_table(work_dir / GENERATIONS, columns=SCORED_COLUMNS).to_pandas()
    flagged = plan.spec.contaminated
    benchmarks = {}
    for benchmark in plan.spec.evaluation.benchmarks:
        name, problems = benchmark.name, plan.problems[benchmark.name]
        released = [problem.released.isoformat() for problem in problems if problem.released]
        benchmarks[name] = {
            "domain": benchmark.domain,
            "content_hash": content_hash(problems),
            "prompt": plan.templates(benchmark),
            "published_questions": None if benchmark.advanced.part else benchmark.advanced.questions,
            "public_since": str(day) if (day := benchmark.advanced.released) else None,
            "set_aside": plan.spec.set_aside.get(name, {}),
            "released": [min(released), max(released)] if released else None,
            **score(
                rows[rows.benchmark == name],
                problems,
                plan.spec.evaluation.pass_at_of(benchmark),
                vote=domain_of(benchmark.domain).answers_vote,
                contaminated=None if flagged is None else flagged.get(name, ()),
            ),
            "answer_pattern": benchmark.advanced.answer_pattern,
            "verification": _verification(benchmark, plan.spec.verification),
            **_read_from_texts(work_dir, benchmark, problems, plan.judged_prefixes[name]),
        }
    scores = without_nan({**_asked(plan), "benchmarks": benchmarks})
    with disk_errors(work_dir):
        write_atomically(work_dir / SCORES, json.dumps(scores, indent=1))


def _verification(benchmark: Benchmark, verification: Verification) -> dict[str, Any]:
    """What else decides the verdicts of a benchmark: the recipe's setting if it compares math, and the user's own
    code."""
    setting = {"math": verification.math} if domain_of(benchmark.domain).compares_math else {}
    return {**setting, "own_code": own_code(code_of([benchmark.domain]))}


def _read_from_texts(work_dir: Path, benchmark: Benchmark, problems: Sequence[Problem], prefix: str) -> dict[str, Any]:
    """`without_answers` if those are more than a fifth of the judged responses, for domains whose answers are read by a
    pattern; and the domain's own `metrics`. Reads no more texts than they need."""
    domain, scored = domain_of(benchmark.domain), dict[str, Any](without_answers=None)

    def judged(columns: list[str], *more: tuple[str, str, str]) -> list[dict[str, Any]]:
        filters = [("benchmark", "==", benchmark.name), ("outcome", "!=", Outcome.INFRA_ERROR.value), *more]
        return pq.read_table(work_dir / GENERATIONS, columns=columns, filters=filters).to_pylist()

    if domain.compares_math:
        unread = judged(["text"], ("outcome", "==", Outcome.UNPARSEABLE.value), ("finish_reason", "!=", "length"))
        if len(unread) > MANY_WITHOUT * len(judged(["problem_id"])):
            texts = [prefix + row["text"] for row in unread]
            scored["without_answers"] = without_answers(benchmark.advanced.answer_pattern, texts)
    if type(domain).metrics is not Domain.metrics:
        by_id, rows = {p.problem_id: p for p in problems}, judged(["problem_id", "text", "finish_reason"])
        responses = ["" if row["finish_reason"] == "length" else prefix + row["text"] for row in rows]
        pairs = zip([by_id[row["problem_id"]] for row in rows], responses, strict=True)
        scored["metrics"] = dict(domain.metrics(list(pairs)))
    return scored


def _progress(work_dir: Path, record: dict[str, Any]) -> None:
    with disk_errors(work_dir), open(work_dir / PROGRESS, "a") as file:
        file.write(json.dumps({**record, "time": time.time()}) + "\n")


def _status(work_dir: Path, state: str, message: str) -> None:
    write_atomically(work_dir / STATUS, json.dumps({"state": state, "message": message}))


def preload(specification: str = "", *_: str) -> bool:
    """Import everything that an evaluation needs; True if this process may then be forked."""
    import pandas  # noqa: F401  for scores

    from ratchet.verifiers.math import domain  # noqa: F401

    if may_fork := sampling.preload():
        load_domains(specification)
    return may_fork


def main(spec_path: Path | None = None) -> int:
    spec_path, work_dir = spec_path or Path(sys.argv[1]), None
    try:
        spec = read_spec(spec_path)
        work_dir = spec.work_dir
        with disk_errors(work_dir):
            work_dir.mkdir(parents=True, exist_ok=True)
        evaluate(spec_path, load_plan(spec))
        return 0
    except Exception as error:
        expected = isinstance(error, RatchetError)
        message = str(error) if expected else traceback.format_exc()
        print(message, file=sys.stderr)
        if work_dir and work_dir.is_dir():
            with suppress(OSError):  # a full disk; exit code and standard error still report the failure
                _status(work_dir, "failed", message)
        return 2 if expected else 1


if __name__ == "__main__":
    sys.exit(main())
