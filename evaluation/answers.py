"""The answer in a response as a benchmark's community writes it. Only for evaluation: a policy that is rewarded for the
last number it writes learns not to state its answer, so training always reads the box."""

import re
from collections.abc import Iterable
from typing import Any

from ratchet.infra.recipe.evaluation import ANSWER_PATTERNS
from ratchet.verifiers.extraction import MAX_ANSWER_CHARACTERS, after_thinking, boxed_answer

MANY_WITHOUT = 0.2
"""Share of responses without an answer above which an evaluation warns."""
EXAMPLES, EXAMPLE_CHARACTERS = 3, 200
_NEXT_QUESTION = re.compile(r"\n(?:Q|Question|Problem) ?\d* ?:")
_MARKUP = re.compile(r"\*\*|__|`")


def answer_by(pattern: str, response: str) -> str | None:
    """The last match of a preset or a regular expression with one group, after the thinking; None without one. White
    space is folded first, and empty lines are dropped: runs of it make such patterns slow.

    Where a base model goes on with a question of its own, in the style of its few-shot prompt, only the text before
    that is read.
    """
    if pattern == "boxed":
        return boxed_answer(response)
    text = "\n".join(
        folded for line in (after_thinking(response) or "").splitlines() if (folded := " ".join(line.split()))
    )
    own = _NEXT_QUESTION.search(text)
    matches = list(re.finditer(ANSWER_PATTERNS.get(pattern, pattern), text[: own.start()] if own else text))
    answer = _MARKUP.sub("", matches[-1][1] or "").strip() if matches else ""
    return answer if answer and len(answer) <= MAX_ANSWER_CHARACTERS else None


def without_answers(pattern: str, responses: Iterable[str]) -> dict[str, Any]:
    """Of responses in which `pattern` finds no answer: the ends of three as `examples`, and `preset`, the first that
    reads most of them (None if none does), with the share that it `reads`."""
    texts = list(responses)
    shares = {name: sum(answer_by(name, text) is not None for text in texts) / len(texts)
              for name in ("boxed", *ANSWER_PATTERNS) if name != pattern}  # fmt: skip
    preset = next((name for name, share in shares.items() if share > 0.5), None)
    ends = [" ".join((after_thinking(text) or text).split())[-EXAMPLE_CHARACTERS:] for text in texts]
    shown = list(dict.fromkeys(filter(None, ends)))[:EXAMPLES]
    return {"examples": shown, "preset": preset, "reads": shares[preset] if preset else None}
