r"""Worked solutions from the equations of MAWPS: `python -m ratchet.examples.word_problems.solutions trainset.json`.

MAWPS gives each problem one equation, `X=((32.0+42.0)-35.0)`. A model learns more easily from its steps, one operation
a line: `32 + 42 = 74` and `74 - 35 = 39`. Writes `solutions.jsonl` in the current directory with question, answer and
solution, and says how many rows it left out: those whose equation has another form, or another result than the answer,
or more than three operations, or numbers of more than two decimals.
"""

import argparse
import ast
import json
import math
from pathlib import Path
from typing import Any

from ratchet.infra.files import write_atomically

SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
MOST_STEPS = 3


def steps_of(equation: str) -> tuple[list[str], float] | None:
    """The lines of the solution and its result; None for an equation of another form."""
    name, _, expression = equation.replace(" ", "").partition("=")
    steps: list[str] = []
    try:
        result = _value(ast.parse(expression, mode="eval").body, steps)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None
    return (steps, result) if name.lower() == "x" and 0 < len(steps) <= MOST_STEPS else None


def _value(node: ast.expr, steps: list[str]) -> float:
    """Raises ValueError for anything but the four operations on numbers of at most two decimals."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = float(node.value)
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        left, right = _value(node.left, steps), _value(node.right, steps)
        sign = SIGNS[type(node.op)]
        value = {"+": left + right, "-": left - right, "*": left * right, "/": left / right if right else math.nan}[
            sign
        ]
        steps.append(f"{_text(left)} {sign} {_text(right)} = {_text(value)}")
    else:
        raise ValueError("not an arithmetic expression")
    if not math.isclose(value, round(value, 2), abs_tol=1e-9):
        raise ValueError("more than two decimals")
    return value


def _text(value: float) -> str:
    return f"{round(value, 2):.10g}"


def solved(row: dict[str, Any]) -> dict[str, str] | None:
    found = steps_of(row["equation"])
    if found is None or not isinstance(row["ans"], int | float) or not math.isclose(found[1], row["ans"], abs_tol=1e-6):
        return None
    return {"question": row["original_text"], "answer": _text(found[1]), "solution": "\n".join(found[0])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="trainset.json of MAWPS")
    path = parser.parse_args().file
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        kept = [row for row in map(solved, rows) if row]
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise SystemExit(f"{path}: not a list of problems with original_text, equation and ans: {error!r}") from error
    write_atomically(Path("solutions.jsonl"), "".join(json.dumps(row) + "\n" for row in kept))
    print(f"solutions.jsonl: {len(kept)} of {len(rows)} problems, {len(rows) - len(kept)} left out")


if __name__ == "__main__":
    main()
