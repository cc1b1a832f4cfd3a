r"""Find the boxed answer of a worked solution: `\boxed{...}`, `\fbox{...}`, and `\boxed 4` without braces."""

import re

from ratchet.verifiers.math.boxes import boxes
from ratchet.verifiers.math.equivalence import equivalent

_JOINED_BY = re.compile(r"\b(?:and|or)\b|[,;&]|\\q?quad|\\\\")
_AND = re.compile(r"\b(?:and|or)\b|;|,\s*(?:the|its)\b")
_SENTENCE_ENDS = re.compile(r"[.?!][\"')\]}$]*\s+(?=[A-Z\\$])|\n\s*\n")
_DERIVED = re.compile(
    r"\b(?:so|then|thus|hence|therefore|giv\w+|which|because|since|but|not|becomes|simplif\w+|equals?|that is|i\.e"
    r"|means|yields?|instead|rather|add|subtract|multiply|divide|implies|from|plus|minus|times)\b"
    r"|\\(?:implies|Rightarrow|Longrightarrow|to|rightarrow|therefore|approx|equiv|iff)\b|⇒|→|∴|≈"
)
"""Between two boxes: the second follows from the first, and is the answer."""
_MOST_WORDS_BETWEEN = 10


def final_box(text: str) -> str | None:
    """The content of the last box, or of all boxes of an answer in parts, separated by commas; None if there is no box,
    or if the last one is empty or not closed."""
    found = boxes(text, loose=True)
    if not found:
        return None
    answers = [found[-1].content]
    for box, following in zip(reversed(found[:-1]), reversed(found[1:]), strict=True):
        if not box.content or not _belong_together(text[box.end : following.start]):
            break
        answers.insert(0, box.content)
    if not answers[-1]:
        return None
    different: list[str] = []
    for answer in answers:
        if answer and not any(answer == other or equivalent(other, answer) for other in different):
            different.append(answer)
    return ", ".join(different)


def _belong_together(between: str) -> bool:
    """True if two boxes are parts of one answer: "$x = \\boxed{2}$ and $y = \\boxed{3}$"."""
    if _SENTENCE_ENDS.search(between) or _DERIVED.search(between) or not _JOINED_BY.search(between):
        return False
    words = re.findall(r"(?<!\\)\b[^\W\d_]{2,}", between)
    return not words or (bool(_AND.search(between)) and len(words) <= _MOST_WORDS_BETWEEN)
