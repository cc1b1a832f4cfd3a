"""Before a rehearsal: read its problems as the pipeline will, answer them, and train the small model on the answers.

Run as a process of its own (`python -m ratchet.rehearsal.prepare SPEC`), in which HF_ENDPOINT names the local Hub.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from ratchet.data_curation import read_problems
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.evaluation import named_path
from ratchet.infra.recipe.prompts import user_message
from ratchet.infra.store.problem_table import from_table
from ratchet.rehearsal.answers import candidates, wrong
from ratchet.tasks.inputs import GENERATED, GENERATORS
from ratchet.verifiers import Problem, verify_all
from ratchet.verifiers.errors import RatchetError

SHARES = (1.0, 0.5, 0.25, 0.75, 0.5)
"""Of the traces of a problem that are right, in turn: so the policy solves some always and some seldom, and every
filter by pass rate has something to drop and something to keep."""
TRACES, RAMBLING = 6, 1
"""Traces of a problem, and further ones that never come to an end: a truncated response needs a policy that rambles."""
MAX_PROMPT = 600
"""Characters of a prompt that the small model learns; longer ones cost time and teach it nothing more."""


@dataclass(frozen=True)
class Answered:
    """What is known about a problem. `right` is None where no candidate passed its verifier."""

    problem: Problem
    right: str | None
    wrong: str
    share: float


def read_all(recipe: Recipe, directory: Path) -> dict[str, dict[str, Problem]]:
    """Problems of every source and benchmark of the recipe, by domain and id. A file that cannot be read is left to the
    pipeline, which says why."""
    wanted = [(domain, path, own.columns) for domain, own in recipe.curation.items() for path in own.inputs]
    wanted += [(domain, named_path(path), {}) for domain, own in recipe.curation.items() for path in own.benchmarks]
    wanted += [(each.domain, each.path, {}) for each in recipe.evaluation.benchmarks if each.path]
    problems: dict[str, dict[str, Problem]] = {}
    for domain, path, columns in dict.fromkeys((d, p, tuple(c.items())) for d, p, c in wanted):
        try:
            table = read_problems(_local(recipe, path, directory), domain, columns=dict(columns)).kept
        except RatchetError as error:
            print(f"! {error}")
            continue
        problems.setdefault(domain, {}).update({p.problem_id: p for p in from_table(table)})
    return problems


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


def answer(problems: Mapping[str, Mapping[str, Problem]], workers: int) -> list[Answered]:
    """Each problem with the first candidate that its verifier passes."""
    pairs = [(p, text) for own in problems.values() for p in own.values() for text in dict.fromkeys(candidates(p))]
    right: dict[tuple[str, str], str] = {}
    for (problem, text), verdict in zip(pairs, verify_all(pairs, workers), strict=True):
        if verdict.passed:
            right.setdefault((problem.domain, problem.problem_id), text)
    answered = []
    for domain, own in problems.items():
        for number, problem in enumerate(sorted(own.values(), key=lambda p: p.problem_id)):
            text = right.get((domain, problem.problem_id))
            share = SHARES[number % len(SHARES)] if text else 0.0
            answered.append(Answered(problem, text, wrong(problem), share))
    return answered


def traces(answered: list[Answered], recipe: Recipe) -> Iterator[dict[str, str]]:
    """{"prompt", "response"}, with thinking where the recipe's responses begin with it."""
    prefix = recipe.model.prompt.response_prefix
    thinks = "<think>" in prefix
    rambling = "Let us count: " + " ".join(map(str, range(1, 120)))
    for each in answered:
        message = user_message(each.problem, recipe.model.prompt)
        if len(message) > MAX_PROMPT:
            continue
        right = round(TRACES * each.share)
        for text in [each.right or each.wrong] * right + [each.wrong] * (TRACES - right):
            yield {"prompt": message, "response": f"{prefix}Well.\n</think>\n{text}" if thinks else prefix + text}
        yield from [{"prompt": message, "response": prefix + rambling}] * RAMBLING


def prepare(spec: Mapping[str, Any]) -> dict[str, Any]:
    recipe = load_recipe(spec["recipe"])
    with tempfile.TemporaryDirectory() as directory:
        problems = read_all(recipe, Path(directory))
    answered = answer(problems, spec["workers"])
    with open(spec["answers"], "w") as file:
        for each in answered:
            line = {**asdict(each), "problem": None, "prompt": each.problem.prompt, "id": each.problem.problem_id}
            file.write(json.dumps(line) + "\n")
    if spec["config"]:
        from ratchet.rehearsal.small_model import train_model

        lessons = list(traces(answered, recipe))
        Random(recipe.seed).shuffle(lessons)
        model = Path(spec["model"])
        shutil.rmtree(model, ignore_errors=True)
        train_model(spec["config"], lessons, recipe.model.prompt, recipe.seed, model)
    count = {domain: len(own) for domain, own in problems.items()}
    return {"problems": count, "answered": sum(each.right is not None for each in answered)}


if __name__ == "__main__":
    print(json.dumps(prepare(json.loads(Path(sys.argv[1]).read_text()))))
