"""More than two thousand pairs of problem and response, of every shipped domain, right and wrong."""

import json
from pathlib import Path

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.logic.generation import make_puzzles
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.verifiers.test_instructions import IFEVAL_ROWS

DATA = Path(__file__).parents[1] / "verifiers"
PROGRAMS = (
    "print(int(input()) + {n})", "print(int(input()) + {n} if 1 else 0)  # {n}", "print({n})", "print(input())",
    "import sys\nprint(sum(map(int, sys.stdin)) + {n})", "print(1 / 0)", "def f(:", "while True: pass",
    "n = int(input())\nprint(n + {n} if n < 3 else n)", "import os\nos._exit(0)",
)  # fmt: skip


def _lines(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def rewards_at_home(made: list[tuple[Problem, str]]) -> list[float]:
    """Of each pair 1 or 0, in graded domains the fraction."""
    with VerifierPool() as pool:
        verdicts = pool.verify(made)
    return [
        verdict.fraction if domain_of(problem.domain).reward == "graded" else float(verdict.passed)
        for (problem, _), verdict in zip(made, verdicts, strict=True)
    ]


def pairs(directory: Path) -> list[tuple[Problem, str]]:
    made = [
        (
            Problem.of("math", answer=row["gold"]),
            row["response"] if "response" in row else f"so \\boxed{{{row['pred']}}}",
        )
        for row in _lines("math_pairs.jsonl")
    ]
    for each in _lines("science_pairs.jsonl"):
        problem = Problem("p", "science", "", answer=each["reference"], tests=json.dumps({"unit": each["unit"]}))
        made.append((problem, f"\\boxed{{{each['answer']}}}"))
    for n in range(12):
        tests = [{"input": f"{k}\n", "output": f"{k + n}\n"} for k in range(5)]
        problem = Problem.of("code", tests=tests, time_limit_s=2.0)
        made += [(problem, f"<think>hm</think>\n```python\n{program.format(n=n)}\n```") for program in PROGRAMS]
        made.append((problem, "no program"))
    for row in IFEVAL_ROWS:
        both = [{"id": row["kind"], "kwargs": row["arguments"]}, {"id": "punctuation:no_comma", "kwargs": {}}]
        problem = Problem.of("instructions", tests=both)
        made += [(problem, text) for text in (*row["follows"], *row["violates"])]
    made += _puzzles(directory)
    return made


def _puzzles(directory: Path) -> list[tuple[Problem, str]]:
    make_puzzles(directory, seed=5, tasks=("countdown", "number_sorting", "spiral_matrix"), train=12, test=1)
    made = []
    for problem in from_table(read_problems(directory / "train.jsonl", "logic").kept):
        answer = json.loads(problem.metadata or "{}")["entry"]["answer"]
        made += [(problem, f"<answer>{text}</answer>") for text in (answer, f"{answer} 1", "no")]
    return made
