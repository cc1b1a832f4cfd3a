"""Before a rehearsal: read its problems as the pipeline will, answer them, and train the small model on the answers.

Run as a process of its own (`python -m ratchet.rehearsal.prepare SPEC`), in which HF_ENDPOINT names the local Hub.
"""

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

from ratchet.data_curation import read_problems
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.prompts import user_message
from ratchet.infra.store.problem_table import from_table
from ratchet.rehearsal.answers import candidates, wrong
from ratchet.rehearsal.small_model import RAMBLING, train_model
from ratchet.tasks.inputs import GENERATED, GENERATORS
from ratchet.verifiers import Problem, verify_all
from ratchet.verifiers.errors import RatchetError

SHARES = (1.0, 0.5, 0.25, 0.75, 0.25)
"""Of the traces of a problem that are right, in turn: so the policy solves some always and some seldom, and every
filter by pass rate has something to drop and something to keep."""
SHARES_OF_BENCHMARKS = (1.0, 0.5)
"""A benchmark has few questions, and of each some responses must pass and some fail."""
TRACES = 4
"""Of a problem; and one that never ends: a response is truncated only where the policy rambles."""
MAX_PROMPT = 1100
"""Characters of a prompt that the small model learns; longer ones cost time and teach it nothing more."""


@dataclass(frozen=True)
class Answered:
    """What is known about a problem. `right` is None where no candidate passed its verifier; `messages` are the user
    turns that ask for it, of training and of benchmarks."""

    problem: Problem
    messages: tuple[str, ...]
    right: str | None
    share: float


def read_all(recipe: Recipe, directory: Path) -> list[tuple[Problem, list[str], float]]:
    """The problems of every source and benchmark that is evaluated, with the user turns that ask for them and the share
    of right traces. A file that cannot be read is left to the pipeline, which says why."""
    own, curations = recipe.model.prompt, recipe.curation.items()
    wanted: list[Any] = [
        (domain, path, of.columns, own, sorted, SHARES) for domain, of in curations for path in of.inputs
    ]
    wanted += [
        (benchmark.domain, benchmark.path, {}, benchmark.prompt_format(own), benchmark.select, SHARES_OF_BENCHMARKS)
        for benchmark in recipe.evaluation.benchmarks
        if benchmark.path
    ]
    problems: dict[tuple[str, str], tuple[Problem, list[str], float]] = {}
    for domain, path, columns, prompt_format, select, shares in wanted:
        try:
            table = read_problems(_local(recipe, path, directory), domain, columns=columns).kept
        except RatchetError as error:
            print(f"! {error}")
            continue
        by_id = {problem.problem_id: problem for problem in from_table(table)}
        for place, problem in enumerate(map(by_id.__getitem__, select(by_id))):
            message, entry = user_message(problem, prompt_format), (problem, list[str](), shares[place % len(shares)])
            _, messages, _ = problems.setdefault((problem.domain, problem.problem_id), entry)
            if message not in messages:
                messages.append(message)
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


def answer(problems: Sequence[tuple[Problem, list[str], float]], workers: int) -> list[Answered]:
    """Each problem with the first candidate that its verifier passes."""
    pairs = [(number, text) for number, (problem, *_) in enumerate(problems) for text in candidates(problem)]
    verdicts = verify_all([(problems[number][0], text) for number, text in pairs], workers)
    right: dict[int, str] = {}
    for (number, text), verdict in zip(pairs, verdicts, strict=True):
        if verdict.passed:
            right.setdefault(number, text)
    return [
        Answered(problem, tuple(messages), right.get(number), share if number in right else 0.0)
        for number, (problem, messages, share) in enumerate(problems)
    ]


def traces(answered: list[Answered], recipe: Recipe) -> Iterator[dict[str, str]]:
    """{"prompt", "response"}, with thinking where the recipe's responses begin with it. Those of `RAMBLING` go on."""
    prefix = recipe.model.prompt.response_prefix
    start = f"{prefix}Well.\n</think>\n" if "<think>" in prefix else prefix
    for each in answered:
        right = round(TRACES * each.share)
        texts = [each.right or ""] * right + [wrong(each.problem)] * (TRACES - right)
        responses = [*(start + text for text in texts), prefix + RAMBLING]
        for message in (message for message in each.messages if len(message) <= MAX_PROMPT):
            yield from ({"prompt": message, "response": response} for response in responses)


def prepare(spec: Mapping[str, Any]) -> dict[str, Any]:
    recipe = load_recipe(spec["recipe"])
    with tempfile.TemporaryDirectory() as directory:
        answered = answer(read_all(recipe, Path(directory)), spec["workers"])
    with open(spec["answers"], "w") as file:
        for each in answered:
            texts = {"prompt": each.problem.prompt, "right": each.right, "wrong": wrong(each.problem)}
            file.write(json.dumps({"id": each.problem.problem_id, **texts}) + "\n")
    if spec["config"]:
        lessons = list(traces(answered, recipe))
        Random(recipe.seed).shuffle(lessons)
        model = Path(spec["model"])
        shutil.rmtree(model, ignore_errors=True)
        train_model(spec["config"], lessons, recipe.model.prompt, recipe.seed, model)
    return {
        "problems": Counter(each.problem.domain for each in answered),
        "answered": sum(each.right is not None for each in answered),
        "gpus": torch.cuda.device_count(),
    }


if __name__ == "__main__":
    print(json.dumps(prepare(json.loads(Path(sys.argv[1]).read_text()))))
