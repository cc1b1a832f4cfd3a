r"""Word problems of MAWPS that a small model can reach, with solutions, in JSON Lines:

    python -m ratchet.examples.word_problems.solutions trainset.json testset.json

writes `train.jsonl` and `test.jsonl`, rows with question, answer and solution, and says how many problems it left out.
MAWPS gives each problem one equation, `X=((32.0+42.0)-35.0)`; a model learns more easily from its steps, an operation a
line: `32 + 42 = 74` and `74 - 35 = 39`. A problem is left out if a number, in its equation or on the way, is not whole
or not below 100: a model of 135 million parameters solves few of the others.
"""

import argparse
import ast
import json
import math
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.files import write_atomically

SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
MOST_STEPS, BELOW = 3, 100


def solved(row: dict[str, Any]) -> dict[str, str] | None:
    """The problem with its solution; None if it is left out."""
    name, _, expression = row["equation"].replace(" ", "").partition("=")
    steps: list[str] = []
    try:
        result, wanted = _value(ast.parse(expression, mode="eval").body, steps), float(row["ans"])
    except (SyntaxError, ValueError):
        return None
    if name.lower() != "x" or not 0 < len(steps) <= MOST_STEPS or result != wanted:
        return None
    return {"question": row["original_text"], "answer": str(result), "solution": "\n".join(steps)}


def _value(node: ast.expr, steps: list[str]) -> int:
    """Adds its operations to `steps`. Raises ValueError for a problem that is left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = float(node.value)
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        left, right = _value(node.left, steps), _value(node.right, steps)
        sign = SIGNS[type(node.op)]
        value = {"+": left + right, "-": left - right, "*": left * right, "/": left / right if right else math.nan}[
            sign
        ]
        steps.append(f"{left} {sign} {right} = {value:.0f}")
    else:
        raise ValueError("not an arithmetic expression")
    if not (0 <= value < BELOW and value == int(value)):
        raise ValueError("a number that is not whole or not below 100")
    return int(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, help="trainset.json of MAWPS")
    parser.add_argument("test", type=Path, help="testset.json of MAWPS")
    arguments = vars(parser.parse_args())
    for name, path in arguments.items():
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
            kept = [row for row in map(solved, rows) if row]
        except OSError as error:
            raise SystemExit(f"{path}: {error.strerror}") from error
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise SystemExit(f"{path}: no list of problems with original_text, equation and ans: {error!r}") from error
        write_atomically(Path(f"{name}.jsonl"), "".join(json.dumps(row) + "\n" for row in kept))
        print(f"{name}.jsonl: {len(kept)} of {len(rows)} problems, {len(rows) - len(kept)} left out")


if __name__ == "__main__":
    main()
