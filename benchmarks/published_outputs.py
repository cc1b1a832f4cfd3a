"""Model outputs that others published, scored here: `python -m benchmarks.published_outputs DIRECTORY`.

DIRECTORY has checkouts of openai/grade-school-math, kojima-takeshi188/zero_shot_cot, suzgunmirac/BIG-Bench-Hard and
microsoft/ToRA, and microsoft/rho with its rho-1/outputs.zip unpacked beside it. Prints one row per file: the published
score, the score with the benchmark's answer pattern, the score with the box, and what the warning proposes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ratchet.evaluation.grading import MANY_WITHOUT, answer_by, without_answers
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Verdict
from ratchet.verifiers.problem import Problem, problem_id
from ratchet.verifiers.submission import Submission


class Published(NamedTuple):
    name: str
    score: float
    """In percent, as published."""
    pattern: str
    rows: list[tuple[str, str, str, bool | None]]
    """Question, reference, response, and the published verdict if there is one."""
    domain: str = "math"


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def published(root: Path) -> Iterator[Published]:
    file = root / "grade-school-math/grade_school_math/data/example_model_solutions.jsonl"
    for model in ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"):
        rows = [
            (r["question"], r["ground_truth"].split("A: ")[-1], r[model]["solution"], r[model]["is_correct"])
            for r in lines(file)
        ]
        yield Published(f"GSM8K, OpenAI {model}", 100 * sum(r[3] is True for r in rows) / len(rows), "answer:", rows)
    for kind in ("gsm8k", "multiarith", "singleeq", "addsub"):
        text = (root / f"zero_shot_cot/log/{kind}_zero_shot_cot.log").read_text()
        blocks = re.findall(
            r"\nQ: (.*?)\nA: (.*?)\npred_before : .*?\npred_mode : (.*?)\nGT : (.*?)\n", text, re.DOTALL
        )
        rows = [(q, gold, said, predicted == gold) for q, said, predicted, gold in blocks]
        score = float(re.findall(r"accuracy : ([\d.]+)", text)[-1])
        yield Published(f"{kind}, zero-shot CoT", score, "the answer is", rows)
    for model in ("tora-70b-v1.0", "tora-code-34b-v1.0"):
        folder = root / f"ToRA/src/outputs/llm-agents/{model}/gsm8k"
        rows = [(r["question"], r["gt"], r["code"][0], None) for r in lines(next(folder.glob("*.jsonl")))]
        score = re.search(r"Mean score: \[([\d.]+)\]", next(folder.glob("*.metrics")).read_text())
        yield Published(f"GSM8K, {model}", float(score[1] if score else "nan"), "boxed", rows)
    for model in ("rho-math-1b-v0.1", "rho-math-7b-v0.1"):
        for bench, pattern in (("gsm8k", "the answer is"), ("minerva_math", "the answer is")):
            folder = root / f"rho/outputs/{model}/{bench}"
            found = lines(next(folder.glob("*.jsonl")))
            rows = [(r["question"], r["gt"], r["code"][0], r["score"][0]) for r in found]
            score = json.loads(next(folder.glob("*metrics.json")).read_text())["acc"]
            yield Published(f"{bench}, {model}", score, pattern, rows)
    folder = root / "BIG-Bench-Hard/code-davinci-002-outputs/code-davinci-002-cot"
    for task in ("date_understanding", "logical_deduction_five_objects", "multistep_arithmetic_two", "object_counting"):
        found = json.loads(next(folder.glob(f"{task}*-255000.json")).read_text())["outputs"]
        rows = [(r["input"].rsplit("\n\n", 1)[-1], r["target"].strip("()"), r["prediction"], None) for r in found]
        options = "Options:" in rows[0][0]
        score = json.loads(next(folder.glob(f"{task}*metrics.jsonl")).read_text())["accuracy"]
        yield Published(f"BBH {task}", score, "choice" if options else "the answer is", rows,
                        "science" if options else "math")  # fmt: skip


def judged(problem: Problem, answer: str | None) -> bool:
    if answer is None:
        return False
    verdict = domain_of(problem.domain).prepare(Submission(problem, answer, is_program=True))
    return isinstance(verdict, Verdict) and verdict.passed


def main() -> None:
    print(
        "| file | responses | published | here | box only | no answer | the warning proposes | verdicts that differ |"
    )
    print("|---|--:|--:|--:|--:|--:|---|---|")
    for each in published(Path(sys.argv[1])):
        right = boxed = differ_up = differ_down = 0
        silent = []
        for question, gold, response, theirs in each.rows:
            options = re.findall(r"\n\(([A-Z])\) (.*)", question)
            tests = json.dumps({"options": [text for _, text in options]}) if each.domain == "science" else None
            problem = Problem(problem_id(each.domain, question), each.domain, question, answer=gold, tests=tests)
            answer, box = (answer_by(pattern, response) for pattern in (each.pattern, "boxed"))
            ours = judged(problem, answer)
            right, boxed = right + ours, boxed + judged(problem, box)
            silent += [response] if box is None else []
            if theirs is not None and ours != theirs:
                differ_up, differ_down = differ_up + ours, differ_down + (not ours)
                if "-v" in sys.argv:
                    print(
                        "   ", each.name, "ours" if ours else "theirs", repr(gold), repr(answer), repr(response[-90:])
                    )
        n = len(each.rows)
        hint = without_answers("boxed", silent)["preset"] if len(silent) > MANY_WITHOUT * n else "–"
        none = sum(answer_by(each.pattern, r[2]) is None for r in each.rows)
        differing = f"{differ_up} right here only, {differ_down} there only" if each.rows[0][3] is not None else "–"
        print(f"| {each.name}, `{each.pattern}` | {n} | {each.score:.1f} | {100 * right / n:.1f} | {100 * boxed / n:.1f} "  # noqa: E501
              f"| {none / n:.1%} | {hint} | {differing} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
