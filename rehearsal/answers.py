"""Make a right and a wrong response to each problem of a rehearsal, for its teacher and its small model."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ratchet.rehearsal import invented
from ratchet.verifiers.problem import Problem

PROGRAM = "```python\n{}\n```"


def wrong(problem: Problem) -> str:
    """A response of the right form that no verifier passes. A program passes some of the tests, so that graded rewards
    differ from passing."""
    if problem.domain == "code":
        if program := invented.program(problem.prompt, first=3):
            return PROGRAM.format(program)
        tests = problem.code_tests()
        outputs = {str(test.output) for test in tests}
        if len(outputs) < 2 or any(test.input is None for test in tests):
            return PROGRAM.format("pass")
        return PROGRAM.format(f"print({tests[0].output!r}.strip())")
    if problem.domain == "instructions":
        return ""
    return f"\\boxed{{{invented.OTHER_AMOUNT.get(problem.answer or '', 'none')}}}"


def candidates(problem: Problem) -> Iterable[str]:
    """Responses of which one should pass; the verifier decides. Empty if nothing is known about the problem."""
    match problem.domain:
        case "code":
            golden = [] if problem.golden_solutions is None else problem.golden_solutions
            if program := invented.program(problem.prompt):
                yield PROGRAM.format(program)
            yield from (PROGRAM.format(program.strip()) for program in golden[:1])
            if program := _by_its_tests(problem):
                yield PROGRAM.format(program)
        case "instructions":
            yield from _following(json.loads(problem.tests or "[]"), problem.prompt)
        case "logic":
            yield from (f"<answer>{answer}</answer>" for answer in _own_answers(problem))
        case _:
            if problem.answer is not None:
                yield f"\\boxed{{{problem.answer}}}"


def _own_answers(puzzle: Problem) -> Iterator[Any]:
    """The task's own answer, or what its metadata have of one."""
    if puzzle.answer is not None:
        yield puzzle.answer
    entry = json.loads(puzzle.metadata or "{}").get("entry") or {}
    for name, value in (entry.get("metadata") or {}).items():
        if "answer" in name:
            yield value if isinstance(value, str) else json.dumps(value)


def _by_its_tests(problem: Problem) -> str | None:
    """A program that knows the outputs of the problem's tests, for sources that publish no solution."""
    tests = problem.code_tests()
    if tests and all(test.input is not None for test in tests):
        outputs = {str(test.input).strip(): test.output for test in tests}
        return f"import sys\nprint({outputs!r}[sys.stdin.read().strip()])"
    if problem.entry_point and tests and all(test.call is not None for test in tests):
        outputs = {repr(test.call["args"]): test.output for test in tests if test.call}
        function = f"def {problem.entry_point.rpartition('.')[2]}"
        if problem.starter_code and "class Solution" in problem.starter_code:
            return f"class Solution:\n    {function}(self, *a):\n        return {outputs!r}[repr(list(a))]"
        return f"{function}(*a):\n    return {outputs!r}[repr(list(a))]"
    if problem.entry_point and tests and (source := tests[0].check):
        outputs = dict(re.findall(r"candidate\(([^()]*)\) == ([^\n]+)", source))
        cases = "\n".join(f"    if a == ({args},): return {value}" for args, value in outputs.items())
        return f"def {problem.entry_point}(*a):\n{cases or '    return None'}"
    return None


def _following(instructions: Sequence[dict[str, Any]], prompt: str) -> Iterable[str]:
    """Texts that follow simple instructions: words to use, letters' case, a title, a postscript, bullets."""
    words = [str(w) for each in instructions for w in (each.get("kwargs") or {}).get("keywords") or []]
    words += [
        str(v) for each in instructions for k, v in (each.get("kwargs") or {}).items() if k in ("keyword", "word") and v
    ]
    plain = " ".join(["we", "say", "yes", *words])
    for text in (plain, " ".join([plain] * 8)):
        yield text
        yield text.lower()
        yield text.upper()
        yield f"<<yes>>\n\n{text}"
        yield f'"{text}"'
        yield f"{text}\n\nP.S. {text}"
        yield "\n".join(f"* {text}" for _ in range(3))
        yield "\n".join(f"* {text}" for _ in range(2))
        yield json.dumps({"text": text})
        yield f"*{text}* and *yes* and *no*"
        yield f"{text} [name] [place] [day]"
        yield f"{prompt}\n\n{text}"
        yield "\n***\n".join([text] * 2)
        yield "\n\n".join([text] * 3)
