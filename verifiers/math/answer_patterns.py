"""Read answers as a benchmark's community does, from responses that were not asked for a box; never for rewards."""

import re
from collections.abc import Hashable, Mapping

from ratchet.verifiers.extraction import MAX_ANSWER_CHARACTERS, after_thinking
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.final_answer import stated_answer
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.pool import Pool

BOXED = "boxed"
"""The pattern that leaves it to the domain to read its answers."""
ANSWER_PATTERNS: Mapping[str, str] = {
    "####": r"#### ?([^\n]+?)\.?(?:\n|$)",
    "choice": r"(?i:\banswer(?: ?\([^)\n]*\))?(?: is)?:?[\s*]*(?:option )?)\(?([A-Z])(?:[).:,*]|\n|$)",
    "the answer is": r"(?i:\banswer(?: ?\([^)\n]*\))? is):?\s([^\n]+?)(?:\.?(?:\n|$)|(?<![ap]\.m)\. )",
    "answer:": r"(?i:(?:^|\n)[ *#]*(?:final answer|answer|A)[ *]*:)[ *]*\n?[ *]*"
    r"([^\s*][^\n]*?)(?:\.?(?:\n|$)|(?<![ap]\.m)\. (?=[A-Z]))",
    "last number": r"(-?\d[\d,]*(?:\.\d+)?(?:/\d+)?)",
}
"""Names of `BenchmarkDetails.answer_pattern`, from the strictest to the loosest."""
_NEXT_QUESTION = re.compile(r"\n(?:Q|Question|Problem) ?\d* ?:")
_MARKUP = re.compile(r"\*\*|__|`")


def answer_by(pattern: str, response: str) -> str | None:
    """The answer as a benchmark's community reads it: the last match of a preset or a regular expression with one
    group, after the thinking; None without one. White space is folded first, and empty lines are dropped: runs of it
    make such patterns slow.

    If a base model continues with a question of its own, in the style of its few-shot prompt, only the text before that
    is read.
    """
    if pattern in (BOXED, "stated"):
        return (boxed_answer if pattern == BOXED else stated_answer)(response)
    text = "\n".join(
        folded for line in (after_thinking(response) or "").splitlines() if (folded := " ".join(line.split()))
    )
    own = _NEXT_QUESTION.search(text)
    matches = list(re.finditer(ANSWER_PATTERNS.get(pattern, pattern), text[: own.start()] if own else text))
    answer = _MARKUP.sub("", matches[-1][1] or "").strip() if matches else ""
    return answer if answer and len(answer) <= MAX_ANSWER_CHARACTERS else None


def submit_by(
    pattern: str, pool: Pool, ticket: Hashable, problem: Problem, response: str, finished: bool = True
) -> Verdict | None:
    """Submit a response, or the answer that the pattern reads in it. Returns the verdict where nothing was submitted:
    on a truncated response, and on one in which the pattern finds no answer."""
    if pattern == BOXED:
        pool.submit(ticket, problem, response, finished)
    elif not finished:
        return Verdict(Outcome.FAILED, decided_by="truncated")
    elif (answer := answer_by(pattern, response)) is None:
        why = f"answer_pattern {pattern!r} matches nothing"
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=why)
    else:
        pool.submit(ticket, problem, answer, is_program=True)
    return None
