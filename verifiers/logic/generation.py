"""Generate puzzles as raw rows, by task, seed, level and number, in reasoning-gym's own layout.

    train.jsonl, test.jsonl     question, answer (the task's own), metadata, and: config, level
    made.json                   counts for each task and level, and why puzzles are missing

The same settings and seed give the same files: rows are made in child processes with a fixed hash seed, since some
tasks iterate over sets. The test puzzles are the same for every seed, and none is a training puzzle.
"""

import dataclasses
import hashlib
import json
import random
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.logic import scoring
from ratchet.verifiers.logic.domain import Logic
from ratchet.verifiers.processes import run_child
from ratchet.verifiers.workers import ordered_map

VERSION = 1
"""Raise it when the same settings and seed would now give other files."""
REPORT = "made.json"
TRIES = 4
"""Puzzles tried for each that is kept: small tasks repeat puzzles."""
ROWS_FOR_MORE_PROCESSES = 500
"""Rows for which more than one process is used: each takes seconds to start."""
SECONDS = 20
"""CPU time for one puzzle; a slower level is set aside."""


def make_puzzles(
    directory: Path, seed: int, tasks: Sequence[str] = (), levels: Sequence[int] = (), train: int = 50, test: int = 5,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    grades: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
) -> str:  # fmt: skip
    """Make `train` and `test` puzzles of each task and level. No tasks: all. No levels: each task's default
    configuration; otherwise levels of its curriculum, from 0, as far as it has them. `config` sets fields of a task's
    configuration. `grades` uses the values of one field as levels, such as {"graph_color": {"num_vertices": [5, 10,
    15]}}, which sets `min_num_vertices` and `max_num_vertices`. Returns the tasks and levels with fewer puzzles than
    requested as text, or "".

    Raises RatchetError for an unknown or excluded task, an unknown field, a level that is not a whole number, and a
    task without any puzzle.
    """
    Logic()  # or an error that says what to install
    order = {"seed": seed, "tasks": tasks, "levels": levels, "train": train, "test": test, "config": config or {}}
    run_child(__name__, order | {"grades": grades or {}, "directory": str(directory)})
    few = [c for c in json.loads((directory / REPORT).read_text()) if c["train"] + c["test"] < train + test]
    named = ", ".join(c["task"] if c["level"] is None else f"{c['task']} {c['level']}" for c in few)
    return f"fewer puzzles than asked for ({REPORT} says why): {named}" if few else ""


# Everything below runs in the child.


class PuzzleSet(NamedTuple):
    """The puzzles of one task at one level. `config` differs from the task's defaults; `sizes` are by split."""

    task: str
    level: int | None
    config: dict[str, Any]
    seed: int
    sizes: dict[str, int]


def batches(order: Mapping[str, Any]) -> Iterator[PuzzleSet]:
    """The batches in the order of the recipe. Raises RatchetError for an unknown task, field or level."""
    configs, grades, nothing = order["config"], order["grades"], {"answer": None, "metadata": {}}
    for task in [*order["tasks"], *configs, *grades]:
        if fault := scoring.fault(task, nothing):
            raise RatchetError(f"{fault}.")
    tasks = scoring.tasks()
    sizes = {"test": order["test"], "train": order["train"]}
    for task in order["tasks"] or tasks:
        fields = {field.name for field in dataclasses.fields(tasks[task][1])} - {"seed", "size"}
        own = configs.get(task, {})
        if wrong := own.keys() - fields:
            names = ", ".join(sorted(fields))
            raise RatchetError(f"config.{task}: the task has no setting {sorted(wrong)[0]!r}; it has {names}.")
        if task in grades:
            levels = {level: own | of_level for level, of_level in graded(task, grades[task], fields).items()}
        else:
            numbers = [number for number in order["levels"] if number < level_count(task)] or [None]
            levels = {number: ({} if number is None else level_config(task, number)) | own for number in numbers}
        for level, config in levels.items():
            yield PuzzleSet(task, level, config, order["seed"], sizes)


def graded(task: str, grades: Any, fields: set[str]) -> dict[int, dict[str, Any]]:
    """Each level and its configuration, for levels that are values of one field, or of its `min_` and `max_`."""
    ranges = {name[4:] for name in fields if name.startswith("min_") and f"max_{name[4:]}" in fields}
    name, values = next(iter(grades.items())) if isinstance(grades, dict) and len(grades) == 1 else (None, None)
    if name not in fields | ranges:
        names = ", ".join(sorted(fields | ranges))
        raise RatchetError(f"grades.{task}: give one of the task's settings with its values; it has {names}.")
    if not isinstance(values, list) or not values or any(type(value) is not int for value in values):
        raise RatchetError(f"grades.{task}.{name}: give a list of whole numbers, the levels; not {values!r}.")
    set_of = (name,) if name in fields else (f"min_{name}", f"max_{name}")
    return {value: dict.fromkeys(set_of, value) for value in values}


def level_count(task: str) -> int:
    """The number of levels in the task's curriculum; 0 without one."""
    curriculum = scoring.library().CURRICULA.get(task)
    return max((len(of.levels) for of in curriculum().attributes.values()), default=0) if curriculum else 0


def level_config(task: str, level: int) -> dict[str, Any]:
    """The curriculum's configuration of this level, with each range at its own part."""
    from reasoning_gym.coaching.base_curriculum import DefaultCurriculumContext, RangeAttributeMode

    curriculum = scoring.library().create_curriculum(task)
    curriculum.set_global_level(level)
    config = curriculum.generate_configuration(context=DefaultCurriculumContext(RangeAttributeMode.UPPER_BOUND))
    default = scoring.tasks()[task][1]()
    names = [field.name for field in dataclasses.fields(default) if field.name not in ("seed", "size")]
    return {name: getattr(config, name) for name in names if getattr(config, name) != getattr(default, name)}


def make(batch: PuzzleSet) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The lines of one task and level by split, and their entry in the report."""
    counts = {"task": batch.task, "level": batch.level, "train": 0, "test": 0, "repeated": 0, "own_answer_refused": 0}
    lines: dict[str, list[str]] = {"test": [], "train": []}
    seen: set[str] = set()
    try:
        for split, size in batch.sizes.items():
            for item in _items(batch, split, TRIES * size):
                if counts[split] == size:
                    break
                folded = " ".join(item["question"].split())
                if folded in seen:
                    counts["repeated"] += 1
                elif not _passes_itself(batch, item):
                    counts["own_answer_refused"] += 1
                else:
                    seen.add(folded)
                    counts[split] += 1
                    row = item | {"config": batch.config, "level": batch.level}
                    lines[split].append(json.dumps(row, ensure_ascii=False) + "\n")
    except Exception as error:  # a bug of the task at this level
        counts["stopped_by"] = f"{type(error).__name__}: {error}"[:200]
    return lines, counts


def _items(batch: PuzzleSet, split: str, size: int) -> Iterator[dict[str, Any]]:
    dataset, settings = scoring.tasks()[batch.task]
    level = "default" if batch.level is None else batch.level
    source = f"{batch.seed if split == 'train' else 'held out'} {batch.task} {level}"
    seed = int.from_bytes(hashlib.sha256(source.encode()).digest()[:4]) >> 1  # tasks add the row's number to it
    configured = settings(**batch.config, seed=seed, size=max(size, 1))
    if hasattr(configured, "validate"):
        configured.validate()
    puzzles = dataset(configured)
    for number in range(size):
        random.seed(seed + number)  # a few tasks draw from the global generator too
        yield json.loads(json.dumps(_limited(puzzles, number)))


def _limited(puzzles: Any, number: int) -> dict[str, Any]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"a puzzle takes more than {SECONDS} s")

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 1)  # repeated, in case the task catches the first
    try:
        return puzzles[number]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _passes_itself(batch: PuzzleSet, item: dict[str, Any]) -> bool:
    """True if the task's own answer, if it has one, passes as a response."""
    if item["answer"] is None or scoring.fault(batch.task, item):
        return item["answer"] is None
    return scoring.score(batch.task, batch.config, item, str(item["answer"]).strip()) == 1


def write(directory: Path, rows: Iterable[tuple[dict[str, list[str]], dict[str, Any]]]) -> None:
    """Write the three files. Raises RatchetError for a task without any puzzle."""
    report = []
    with open(directory / "train.jsonl", "w") as train, open(directory / "test.jsonl", "w") as test:
        for lines, counts in rows:
            train.writelines(lines["train"])
            test.writelines(lines["test"])
            report.append(counts)
    made_of = {counts["task"] for counts in report if counts["train"] + counts["test"]}
    for counts in report:
        if counts["task"] not in made_of:
            reason = counts.get("stopped_by", "none was accepted")
            raise RatchetError(f"no puzzle of {counts['task']} could be made: {reason}.")
    (directory / REPORT).write_text(json.dumps(report, indent=1))


def main() -> None:
    order = json.load(sys.stdin)
    try:
        todo = list(batches(order))
        workers = 0 if sum(sum(batch.sizes.values()) for batch in todo) >= ROWS_FOR_MORE_PROCESSES else 1
        write(Path(order["directory"]), ordered_map(make, todo, workers))
    except RatchetError as error:
        sys.exit(f"reasoning-gym: {error}")


if __name__ == "__main__":
    main()
