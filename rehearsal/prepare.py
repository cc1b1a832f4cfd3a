"""Prepare a rehearsal: read its problems as in the pipeline, and find answers for its teacher and small model.

Run as a process of its own (`python -m ratchet.rehearsal.prepare SPEC`), in which HF_ENDPOINT names the local Hub.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratchet.data_curation import read_problems
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.prompts import user_message
from ratchet.flows.runs import open_run
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.settings import load_settings
from ratchet.rehearsal.answers import candidates, wrong
from ratchet.rehearsal.invented import OTHER_AMOUNT
from ratchet.tasks.inputs import GENERATED, generated
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import RunContext
from ratchet.verifiers import JudgeSettings, Problem, verify_all
from ratchet.verifiers.errors import RatchetError

SHARES = (1.0, 0.5, 0.25, 0.75, 0.25)
"""Shares of right traces, for one problem after the other: the policy then solves some always and some seldom, and
every filter by pass rate has something to drop and something to keep."""
SHARES_OF_BENCHMARKS = (1.0, 0.0)
"""Shares for a benchmark's few questions, of which some must be passed and some failed. Whether the model tells them
apart or learns their mean, half of its responses are right, also at a temperature below 1."""
TRACES = 4
"""Traces of a problem, besides one that never ends: a response is truncated only where the policy rambles."""
RAMBLING = "Well" + " so" * 40
"""A response that is learned without an end. Each token follows from the one before, so that the policy continues it
for longer than it was taught."""
TIMES_BY_HEART = 3
"""Visits to the right responses to a benchmark's puzzles and programs: they follow from nothing, or from more than a
small model sees, and are learned by heart."""
MAX_PROMPT, MAX_PUZZLE, MAX_PUZZLE_ASKED = 700, 300, 1500
"""Most characters of a prompt that the small model learns; of a puzzle to train on, which teaches nothing about others;
and of a benchmark's puzzle, which may have no shorter ones. Longer ones cost time and teach it nothing more."""


@dataclass
class SampledProblem:
    """A problem with samples: `share` is that of its right traces, and `messages` are the user turns that ask for it,
    of training and of benchmarks. `right` is None if no candidate passed its verifier; `is_question`: of a benchmark
    only."""

    problem: Problem
    share: float
    is_question: bool
    messages: list[str] = field(default_factory=list)
    right: str | None = None


def read_all(run: RunContext) -> list[SampledProblem]:
    """Read the problems of every source and benchmark that is evaluated. A file that cannot be read is left to the
    pipeline, which reports it."""
    recipe = run.recipe
    own, curations = recipe.model.prompt, recipe.curation.items()
    wanted: list[Any] = [
        (domain, path, of.columns, own, sorted, SHARES) for domain, of in curations for path in of.inputs
    ]
    wanted += [
        (benchmark.domain, benchmark.path, {}, benchmark.prompt_format(own), benchmark.select, SHARES_OF_BENCHMARKS)
        for benchmark in recipe.evaluation.benchmarks
        if benchmark.path
    ]
    problems: dict[tuple[str, str], SampledProblem] = {}
    for domain, path, columns, prompt_format, select, shares in wanted:
        try:
            table = read_problems(_local(run, path), domain, columns=columns).kept
        except RatchetError as error:
            print(f"! {error}")
            continue
        by_id = {problem.problem_id: problem for problem in from_table(table)}
        for place, problem in enumerate(map(by_id.__getitem__, select(by_id))):
            is_question = shares is SHARES_OF_BENCHMARKS
            untold = (problem.answer or "") in OTHER_AMOUNT and not is_question
            new = SampledProblem(problem, 0.5 if untold else shares[place % len(shares)], is_question)
            asked = problems.setdefault((problem.domain, problem.problem_id), new)
            if (message := user_message(problem, prompt_format)) not in asked.messages:
                asked.messages.append(message)
    return [problems[key] for key in sorted(problems)]


def _local(run: RunContext, path: str) -> str:
    """The path; of a generated file, that of the run's artifact, which the pipeline finds."""
    if not path.startswith(GENERATED):
        return path
    name, _, file = path.removeprefix(GENERATED).partition("/")
    return str(generated(run, name).path / file)


def answer(problems: Sequence[SampledProblem], workers: int) -> None:
    """Note the first candidate for each problem that its verifier passes."""
    pairs = [(asked, text) for asked in problems for text in candidates(asked.problem)]
    verdicts = verify_all([(asked.problem, text) for asked, text in pairs], workers, JudgeSettings())
    for (asked, text), verdict in zip(pairs, verdicts, strict=True):
        if verdict.passed and asked.right is None:
            asked.right = text


def lessons(problems: Sequence[SampledProblem], recipe: Recipe) -> Iterator[dict[str, Any]]:
    """The lessons for `small_model`, with thinking if the recipe's responses begin with it. Those of `RAMBLING` do not
    end."""
    prefix = recipe.model.prompt.response_prefix
    start = f"{prefix}Well.\n</think>\n" if "<think>" in prefix else prefix
    for asked in problems:
        right = round(TRACES * asked.share) if asked.right else 0
        weights = {start + (asked.right or ""): right, start + wrong(asked.problem): TRACES - right}
        responses = {text: weight for text, weight in weights.items() if weight} | {prefix + RAMBLING: 1}
        by_heart = asked.is_question and right and asked.problem.domain in ("logic", "code")
        most = MAX_PROMPT
        if asked.problem.domain == "logic":
            most = MAX_PUZZLE_ASKED if asked.is_question else MAX_PUZZLE
        for message in (message for message in asked.messages if len(message) <= most):
            yield {"prompt": message, "responses": responses, "visits": TIMES_BY_HEART if by_heart else 1}


def prepare(spec: Mapping[str, Any]) -> dict[str, Any]:
    recipe, settings = load_recipe(spec["recipe"]), load_settings(Path(spec["home"]))
    with open_run(recipe, settings, "prepare", ProgressReporter()) as run:
        problems = read_all(run)
    answer(problems, spec["workers"])
    with open(spec["answers"], "w") as file:
        for asked in problems:
            texts = {"prompt": asked.problem.prompt, "right": asked.right, "wrong": wrong(asked.problem)}
            file.write(json.dumps({"id": asked.problem.problem_id, **texts}) + "\n")
    Path(spec["lessons"]).write_text(json.dumps([*lessons(problems, recipe)]))
    return {
        "problems": len(problems),
        "answered": sum(asked.right is not None for asked in problems),
        "rows": Counter(asked.problem.domain for asked in problems if not asked.is_question),
    }


if __name__ == "__main__":
    print(json.dumps(prepare(json.loads(Path(sys.argv[1]).read_text()))))
