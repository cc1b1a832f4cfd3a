"""Before a rehearsal: read its problems as the pipeline will, answer them, and train the small model on the answers.

Run as a process of its own (`python -m ratchet.rehearsal.prepare SPEC`), in which HF_ENDPOINT names the local Hub.
"""

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

from ratchet.data_curation import read_problems
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.prompts import user_message
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.rehearsal.answers import candidates, wrong
from ratchet.rehearsal.invented import OTHER_AMOUNT
from ratchet.rehearsal.small_model import RAMBLING, train_model
from ratchet.tasks.inputs import GENERATED, GENERATORS
from ratchet.verifiers import Problem, verify_all
from ratchet.verifiers.errors import RatchetError

SHARES = (1.0, 0.5, 0.25, 0.75, 0.25)
"""Of the traces of a problem that are right, in turn: so the policy solves some always and some seldom, and every
filter by pass rate has something to drop and something to keep."""
SHARES_OF_BENCHMARKS = (1.0, 0.0)
"""A benchmark has few questions, of which some must be passed and some failed: whether the model keeps them apart or
learns their mean, half of its responses are right, which a temperature below 1 leaves as it is."""
TRACES = 4
"""Of a problem; and one that never ends: a response is truncated only where the policy rambles."""
TIMES_OF_PUZZLES = 3
"""Answers to a benchmark's puzzles follow from nothing that a small model sees: they are learned by heart."""
MAX_PROMPT = 1100
"""Characters of a prompt that the small model learns; longer ones cost time and teach it nothing more."""


@dataclass
class Asked:
    """A problem, `share` of whose traces are right, and `messages`, the user turns that ask for it, of training and of
    benchmarks. `right` is none where no candidate passed its verifier; `is_question`: of a benchmark only."""

    problem: Problem
    share: float
    is_question: bool
    messages: list[str] = field(default_factory=list)
    right: str | None = None


def read_all(recipe: Recipe, directory: Path) -> list[Asked]:
    """The problems of every source and benchmark that is evaluated. A file that cannot be read is left to the pipeline,
    which says why."""
    own, curations = recipe.model.prompt, recipe.curation.items()
    wanted: list[Any] = [
        (domain, path, of.columns, own, sorted, SHARES) for domain, of in curations for path in of.inputs
    ]
    wanted += [
        (benchmark.domain, benchmark.path, {}, benchmark.prompt_format(own), benchmark.select, SHARES_OF_BENCHMARKS)
        for benchmark in recipe.evaluation.benchmarks
        if benchmark.path
    ]
    problems: dict[tuple[str, str], Asked] = {}
    for domain, path, columns, prompt_format, select, shares in wanted:
        try:
            table = read_problems(_local(recipe, path, directory), domain, columns=columns).kept
        except RatchetError as error:
            print(f"! {error}")
            continue
        by_id = {problem.problem_id: problem for problem in from_table(table)}
        for place, problem in enumerate(map(by_id.__getitem__, select(by_id))):
            is_question = shares is SHARES_OF_BENCHMARKS
            untold = (problem.answer or "") in OTHER_AMOUNT and not is_question
            new = Asked(problem, 0.5 if untold else shares[place % len(shares)], is_question)
            asked = problems.setdefault((problem.domain, problem.problem_id), new)
            if (message := user_message(problem, prompt_format)) not in asked.messages:
                asked.messages.append(message)
    return [problems[key] for key in sorted(problems)]


def _local(recipe: Recipe, path: str, directory: Path) -> str:
    """The path, generated if it is to be."""
    if not path.startswith(GENERATED):
        return path
    name, _, file = path.removeprefix(GENERATED).partition("/")
    place = directory / name
    if name in recipe.generate and not place.exists():
        place.mkdir(parents=True)
        generator = recipe.generate[name]
        GENERATORS.get(generator.by)(place, recipe.seed, **generator.settings)
    return str(place / file)


def answer(problems: Sequence[Asked], workers: int) -> None:
    """Note the first candidate for each problem that its verifier passes."""
    pairs = [(asked, text) for asked in problems for text in candidates(asked.problem)]
    verdicts = verify_all([(asked.problem, text) for asked, text in pairs], workers)
    for (asked, text), verdict in zip(pairs, verdicts, strict=True):
        if verdict.passed and asked.right is None:
            asked.right = text


def traces(problems: Sequence[Asked], recipe: Recipe) -> Iterator[dict[str, str]]:
    """{"prompt", "response"}, with thinking where the recipe's responses begin with it. Those of `RAMBLING` go on."""
    prefix = recipe.model.prompt.response_prefix
    start = f"{prefix}Well.\n</think>\n" if "<think>" in prefix else prefix
    for asked in problems:
        right = round(TRACES * asked.share) if asked.right else 0
        texts = [asked.right or ""] * right + [wrong(asked.problem)] * (TRACES - right)
        responses = [*(start + text for text in texts), prefix + RAMBLING]
        if asked.is_question and asked.problem.domain == "logic":
            responses *= TIMES_OF_PUZZLES
        for message in (message for message in asked.messages if len(message) <= MAX_PROMPT):
            yield from ({"prompt": message, "response": response} for response in responses)


def prepare(spec: Mapping[str, Any]) -> dict[str, Any]:
    recipe = load_recipe(spec["recipe"])
    with tempfile.TemporaryDirectory() as directory:
        problems = read_all(recipe, Path(directory))
    answer(problems, spec["workers"])
    with open(spec["answers"], "w") as file:
        for asked in problems:
            texts = {"prompt": asked.problem.prompt, "right": asked.right, "wrong": wrong(asked.problem)}
            file.write(json.dumps({"id": asked.problem.problem_id, **texts}) + "\n")
    if spec["config"]:
        lessons = list(traces(problems, recipe))
        Random(recipe.seed).shuffle(lessons)
        model = Path(spec["model"])
        shutil.rmtree(model, ignore_errors=True)
        train_model(spec["config"], lessons, recipe.model.prompt, recipe.seed, model)
    return {
        "problems": len(problems),
        "answered": sum(asked.right is not None for asked in problems),
        "rows": Counter(asked.problem.domain for asked in problems if not asked.is_question),
        "gpus": torch.cuda.device_count(),
    }


if __name__ == "__main__":
    print(json.dumps(prepare(json.loads(Path(sys.argv[1]).read_text()))))
