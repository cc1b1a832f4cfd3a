"""Every task of the installed reasoning-gym, checked: what its own answers, garbage and hostile answers score.

    python benchmarks/logic_puzzles.py                        # about ten minutes on two cores; a Markdown table
    python benchmarks/logic_puzzles.py --tasks sudoku maze    # some tasks
    python benchmarks/logic_puzzles.py --into docs/reference/logic.md   # the table of the page, replaced

Columns: the mean score of the task's own answers (of a solver's, where it has none); the highest score of garbage and
of hostile answers; the highest that the task's own scorer pays for garbage; the best mean that a blind answer gets, the
same to all puzzles or a part of the question copied, by the task's own scorer and by ours; the levels that can be made;
puzzles made a second; milliseconds that the task's own scorer takes; verdicts a second of one worker, each in a process
of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.logic import generation, scoring
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

MARK = Path(tempfile.gettempdir()) / "ratchet-hostile-answer"
GARBAGE = (
    "garbage",
    "",
    "  ",
    "I do not know.",
    "[]",
    "{}",
    '{"a": 1}',
    "nan",
    "[NaN, NaN]",
    "<b>",
    "1, 2, or 3",
    "?!",
)
WRITE = f"__import__('os').system('touch {MARK}')"
HOSTILE = (
    WRITE,
    f"sqrt({WRITE!r})",
    "[__import__('os').write(fd, b'{\"score\": 1.0}') for fd in range(3, 12)] and __import__('os')._exit(0)",
    "(1).__class__.__base__.__subclasses__()",
    "9**9**9**9",
    "'a' * 10**12",
    "[" * 30_000,
    "(" * 300 + "1" + ")" * 300,
    "x" * 3_000_000,
    "𝟙\u202e\x00é\u0301" * 500,
    '{"__class__": "x"}',
    "1e999999999",
)
FIXED = (
    "0", "1", "-1", "2", "3", "4", "5", "10", "100", "0.5", "True", "False", "yes", "no", "Yes", "No", "A", "B", "on",
    "off", "[]", "{}", "[[0, 0], [0, 0]]", "infeasible", "nan", "6*4*1*1", "6*4 + 1/2", "U U'", "L R U D", "0123456789",
)  # fmt: skip
COPIES: tuple[Callable[[str], str], ...] = (
    lambda question: question,
    lambda question: question.strip().split("\n")[-1],
    lambda question: question.strip().split("\n\n")[-1],
    lambda question: question.strip().split(":\n")[-1],
    lambda question: question.strip().split(":")[-1].strip(),
    lambda question: (re.findall(r"\d+", question) or ["0"])[-1],
)


def known_answer(task: str, item: dict[str, Any]) -> str:
    """An answer that should score 1."""
    facts = item["metadata"]
    match task:
        case "graph_color":
            return json.dumps(facts["possible_answer"])
        case "rubiks_cube":
            return facts["example_correct_answer"]
        case "rush_hour":
            return _free_the_car(facts["board_config"])
        case "boxnet":
            return _carry_boxes(facts["initial_state"])
    return item["answer"].strip()


def _free_the_car(board_config: str) -> str:
    """Breadth-first over the positions of all cars."""
    from reasoning_gym.games.rush_hour import Board

    def after(moves: tuple[str, ...]) -> Any:
        board = Board(board_config)
        board.perform_moves(" ".join(moves))
        return board

    def position(board: Any) -> tuple[int, ...]:
        return tuple(piece.position for piece in board._pieces)

    waiting, seen = deque([()]), {position(after(()))}
    letters = [chr(ord("A") + number) for number in range(len(after(())._pieces))]
    while waiting:
        moves = waiting.popleft()
        for move in (f"{letter}{step}" for letter in letters for step in ("+1", "-1")):
            board = after((*moves, move))
            if board.solved:
                return " ".join((*moves, move))
            if (here := position(board)) not in seen:
                seen.add(here)
                waiting.append((*moves, move))
    raise ValueError("the board has no solution")


def _carry_boxes(state: dict[str, list[str]]) -> str:
    moves = []
    places = {thing: tuple(map(float, square.split("_"))) for square, things in state.items() for thing in things}
    for box in (thing for thing in places if thing.startswith("box_")):
        (row, column), target = places[box], box.replace("box_", "target_")
        while (row, column) != places[target]:
            end = places[target]
            step = (row + (end[0] > row) - (end[0] < row), column)
            if row == end[0]:
                step = (row, column + (end[1] > column) - (end[1] < column))
            moves.append({f"Agent[{row}, {column}]": f"move({box}, square[{step[0]}, {step[1]}])"})
            row, column = step
        moves.append({f"Agent[{row}, {column}]": f"move({box}, {target})"})
    return json.dumps(moves)


def puzzles(task: str, items: int, directory: Path) -> tuple[list[Problem], float]:
    """Puzzles of a task's default configuration, and how many are made a second."""
    config = {"rush_hour": {"max_moves": 8}}.get(task, {})  # for the solver's sake
    batch = generation.Batch(task, None, config, 0, {"test": 0, "train": items})
    start = time.process_time()
    generation.write(directory, [generation.make(batch)])
    seconds = time.process_time() - start
    problems = from_table(read_problems(directory / "train.jsonl", "logic").kept)
    return problems, len(problems) / max(seconds, 1e-4)


def levels(task: str) -> str:
    """Levels of which a puzzle can be made, of those that the task has."""
    made = []
    for level in range(count := generation.level_count(task)):
        order = {"seed": 0, "tasks": [task], "levels": [level], "train": 1, "test": 0, "config": {}}
        (batch,) = generation.batches(order)
        made += [level] if generation.make(batch)[1]["train"] else []
    missing = sorted({*range(count)} - {*made})
    return f"0–{count - 1}" + (f" without {', '.join(map(str, missing))}" if missing else "") if count else "–"


def judged(pool: VerifierPool, asked: list[tuple[Problem, str]]) -> list[float]:
    for number, (problem, answer) in enumerate(asked):
        pool.submit(number, problem, f"<answer>{answer}</answer>")
    verdicts = dict(pool.results())
    wrong = [v.detail for v in verdicts.values() if v.outcome.value == "infra_error"]
    assert not wrong, wrong[0]
    return [verdicts[number].fraction for number in range(len(asked))]


def own_scorer(task: str, config: dict[str, Any], entry: dict[str, Any], answer: str) -> float:
    """What the task pays by itself; 0 where its scorer fails."""
    try:
        return float(scoring._scorer(task, config).score_answer(answer, json.loads(json.dumps(entry))))
    except Exception:
        return 0.0


def check(task: str, pool: VerifierPool, items: int, directory: Path) -> list[str]:
    """One line of the table."""
    problems, made = puzzles(task, items, directory)
    rows = [json.loads(problem.metadata or "") for problem in problems]
    known = [known_answer(task, row["entry"]) for row in rows]
    judged(pool, [(problems[0], "the server starts")])
    start = time.perf_counter()
    own = judged(pool, list(zip(problems, known, strict=True)))
    per_second = len(own) / (time.perf_counter() - start)
    garbage = judged(pool, [(problems[0], text) for text in GARBAGE])
    hostile = judged(pool, [(problems[0], text) for text in HOSTILE])
    paid = max(own_scorer(task, row["config"], row["entry"], text) for row in rows[:2] for text in GARBAGE)

    def best(scorer: Callable[..., float]) -> float:
        """The best mean over the puzzles that one way of answering gets."""
        means = []
        for answers in guesses:
            pairs = zip(rows, answers, strict=True)
            means.append(sum(scorer(task, r["config"], r["entry"], text.strip()) for r, text in pairs) / len(rows))
        return max(means)

    guesses = [[text] * len(rows) for text in FIXED]
    guesses += [[copied(problem.prompt) for problem in problems] for copied in COPIES]
    start = time.process_time()
    repeats = [scoring.score(task, r["config"], r["entry"], text) for r, text in zip(rows, known, strict=True)]
    scorer_ms = (time.process_time() - start) / len(repeats) * 1e3
    left = "a file" if MARK.exists() else ""
    return [
        task, f"{sum(own) / len(own):.2f}", f"{max(garbage):.2f}", f"{max(hostile):.2f}{left}", f"{paid:.2f}",
        f"{best(own_scorer):.2f}", f"{best(scoring.score):.2f}", levels(task), f"{made:,.0f}", f"{scorer_ms:.1f}",
        f"{per_second:.0f}", "repaired" if task in scoring.REPAIRED else "whole" if scoring.only_whole(task) else "",
    ]  # fmt: skip


HEADER = (
    "task", "own", "garbage", "hostile", "garbage, by the task", "blind, by the task", "blind", "levels", "made/s",
    "scorer ms", "verdicts/s", "",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*")
    parser.add_argument("--items", type=int, default=6)
    parser.add_argument("--into", type=Path)
    options = parser.parse_args()
    MARK.unlink(missing_ok=True)
    lines = ["| " + " | ".join(HEADER) + " |", "|---|" + "--:|" * (len(HEADER) - 2) + "---|"]
    before = _processes()
    with VerifierPool(workers=1) as pool, tempfile.TemporaryDirectory() as directory:
        for task in options.tasks or sorted(scoring.tasks()):
            lines.append("| " + " | ".join(check(task, pool, options.items, Path(directory))) + " |")
            print(lines[-1], flush=True)
    time.sleep(1)
    print("\n".join(lines))
    left = len(_processes() - before)
    print(f"\n{len(lines) - 2} tasks; processes left running: {left}; files written: {MARK.exists()}")
    if options.into:
        page = options.into.read_text()
        head, _, rest = page.partition("<!-- table -->\n")
        tail = rest.partition("<!-- end -->")[2]
        options.into.write_text(f"{head}<!-- table -->\n" + "\n".join(lines) + f"\n<!-- end -->{tail}")


def _processes() -> set[str]:
    """Scoring processes of any age: the server's children are named as it is."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"logic.domain:Logic" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
        except OSError:
            continue
    return found


if __name__ == "__main__":
    main()
