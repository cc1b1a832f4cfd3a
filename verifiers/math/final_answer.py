r"""Read the final answer in a response that nobody asked for a box.

It is judged as if it were boxed, so that a sentence that hedges, names several values or takes one back answers
nothing. Rewards do not use this: a policy should learn to say where its answer is.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from ratchet.verifiers.domain import Work
from ratchet.verifiers.extraction import MAX_ANSWER_CHARACTERS, after_thinking
from ratchet.verifiers.math.boxes import boxed_answer
from ratchet.verifiers.math.vocabulary import VOCABULARY
from ratchet.verifiers.outcome import Verdict
from ratchet.verifiers.submission import Submission

_WORDS = VOCABULARY["final_answer"]
_ANNOUNCED = re.compile(
    r"(?:^|\n)[ \t]*(?:####(?!#)|A:)"
    r"|\banswers?(?: ?\([^()\n]{0,40}\)| (?:to|for|of) [^.:\n]{1,80}?)?[ *_]*(?: (?:is|are)\b|:|=)[ *_:]*",
    re.IGNORECASE,
)
_REMARK = re.compile(r"[\s*_#]*(?:[A-Za-z]{2}|\Z)")
"""Text that may follow a stated answer: words, not another value."""
_UNBOXED = "the answer was read without a box, which earns no reward in training"
_LAST_CHARACTERS = 4 * MAX_ANSWER_CHARACTERS
"""Characters at the end of a response that are read if it has no box."""
_MATH_BLOCK = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]", re.DOTALL)
_FORMULA = re.compile(r"(?:\$((?:\\\$|[^$])+)\$|\\\((.+?)\\\))[.,]?")
_BOLD = re.compile(r"(?:\*\*|__)([^*_\n]+)(?:\*\*|__)|\\textbf\{([^{}]*)\}")
_MARKUP = re.compile(
    r"(?:(?<![\w)])|(?<=[a-z]{2}))\*\*|\*\*(?!-?\d|\(-?\d)"  # and not the power of x**2
    r"|__(?=\S)|(?<=\S)__|^#+ |^> ?|^[-*] |`|^_(?=[^_]+_$)|(?<=\S)_$",
    re.MULTILINE,
)
_SENTENCE_ENDS = re.compile(
    r"(?<![ap]\.m)(?<=[.!?])[\"')\]$*]*\s+(?=[A-Z\d$\\*(-]|[a-z] ?=)|(?<=\.\.\.)\s+(?=the\b|so\b|hence\b)|\n"
)
_HTML = re.compile(r"</?(?:b|u|i|em|strong|p)>")
_APPROXIMATELY = re.compile(
    r"(?<=[$)])(?:, which is| is|,)? (?:about|approximately|roughly|or about) \$?\d+\.\d+\$?\.?\Z", re.IGNORECASE
)
r"""An exact value is given with its decimals: `$\sqrt{15}$, which is about 3.87`."""
_TAGGED = re.compile(
    r"<answer>(.+?)</answer>|\{\s*\"(?:final_)?answer\"\s*:\s*(?:\"([^\"]+)\"|([^{}\"]+?))\s*\}", re.DOTALL
)
"""An answer in the tags of R1's format, or as the only field of a JSON object."""
_FENCE = re.compile(r"\n?```(?:text|latex|math|json)?\n(.+?)\n```\s*\Z", re.DOTALL)
_CONCLUDING = re.compile(
    r"\A(?:.*(?:[,;:.]|\band)\s+)?"
    rf"(?:(?<!\\)\b(?:{'|'.join(_WORDS['concluding'].split(', '))})\b|\\implies|\\Rightarrow|⇒|∴)"
    r"[,:]?\s*(?:that )?(?=\S)"
    r"|\A(?:since|because)\b.*,\s+",
    re.IGNORECASE,
)
_LABEL = re.compile(r"\A(?:(?:it|this|that) (?:is|equals) |[A-Za-z][A-Za-z' -]{0,40}:\s*)(?=\S)", re.IGNORECASE)
_RECONSIDERED, _DENIED = (
    re.compile(rf"\b(?:{'|'.join(_WORDS[each].split())})\b|n't\b", re.IGNORECASE) for each in ("reconsidered", "denied")
)
_VALUE = re.compile(r"(?:[^A-Za-z:]|\\[a-z]+|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))+")
"""Text without words: what may stand behind the colon of a sentence."""
_CLOSING = re.compile(rf"(?:{'|'.join(_WORDS['closing'].split(', '))})[.!]*\s*\Z", re.IGNORECASE)


def judged_as_stated(submission: Submission, judge: Callable[[Submission], Verdict | Work]) -> Verdict | Work:
    """The verdict on the bare answer that a response states, if its settings allow an answer without a box; its
    `detail` then says so."""
    reads = submission.settings.stated and submission.finished and not submission.is_program
    answer = stated_answer(submission.text) if reads and not boxed_answer(submission.text) else None
    judged = judge(replace(submission, text=answer, is_program=True) if answer else submission)
    if not answer or not isinstance(judged, Verdict):
        return judged
    return replace(judged, detail="; ".join(filter(None, (judged.detail, _UNBOXED))))


def stated_answer(response: str) -> str | None:
    """The boxed answer, or in a response without a box the one that it states last: behind "the answer is", "Answer:"
    or `####`, in bold or in a formula of its own, or in the last sentence. None for anything else.
    """
    text = after_thinking(response)
    if text is None or "\\boxed" in text:
        return boxed_answer(response)
    text = _FENCE.sub(r"\n\1", _CLOSING.sub("", text[-_LAST_CHARACTERS:].strip())).strip()
    tagged = [*_TAGGED.finditer(text)]
    if len(tagged) == 1 and not text[tagged[0].end() :].strip(" .\n"):
        return _bare(next(filter(None, tagged[0].groups())))
    announced = None
    for announced in _ANNOUNCED.finditer(text):  # noqa: B007
        pass
    if announced and (answer := _first_sentence(text[announced.end() :])):
        statement, rest = answer
        before = _SENTENCE_ENDS.split(text[: announced.start() + 1])[-1]
        competes = _DENIED.search(before) or _RECONSIDERED.search(rest) or not _REMARK.match(rest)
        return None if competes else _bare(statement)
    return _last_statement(text)


def _first_sentence(text: str) -> tuple[str, str] | None:
    """A statement and what follows it; None if nothing does."""
    text = text.lstrip(" \t\n*_:")
    if block := _MATH_BLOCK.match(text):
        return block[1] or block[2], text[block.end() :]
    end = _SENTENCE_ENDS.search(text)
    begin, rest = (text[: end.start()], text[end.end() :]) if end else (text, "")
    return (begin, rest) if begin else None


def _last_statement(text: str) -> str | None:
    block = None
    for block in _MATH_BLOCK.finditer(text):  # noqa: B007
        pass
    if block and not text[block.end() :].strip(" .\n"):
        return _bare(block[1] or block[2])
    sentence = _SENTENCE_ENDS.split(text.rpartition("\n")[2])[-1].strip()
    if sentence.endswith(("?", ":", ",")):
        return None
    bold = [match for match in _BOLD.finditer(sentence) if not (match[1] or match[2]).rstrip().endswith(":")]
    if len(bold) == 1 and not _DENIED.search(sentence[: bold[0].start()] + sentence[bold[0].end() :]):
        return _bare(bold[0][1] or bold[0][2])
    sentence = _MARKUP.sub("", sentence)
    before, _, behind = sentence.rpartition(": ")
    is_apart = "=" in before or (before[-1:].isalpha() and _VALUE.fullmatch(behind))
    sentence = behind if is_apart else sentence  # Half of 8 is 4, and 5 - 16 = -11: (x + 4)^2 - 11
    label = _LABEL.match(sentence := _CONCLUDING.sub("", sentence))
    return _bare(sentence[label.end() :] if label and not _DENIED.search(label[0]) else sentence)


def _bare(statement: str) -> str | None:
    """The statement without Markdown, dollar signs around it, and the period at its end."""
    text = _HTML.sub("", _MARKUP.sub("", statement.strip())).strip()
    text = _APPROXIMATELY.sub("", text)
    if formula := _FORMULA.fullmatch(text):
        text = (formula[1] or formula[2]).strip()
    if text.endswith(".") and not text.lower().endswith((".m.", "..")):
        text = text[:-1].rstrip()
    return text if text and len(text) <= MAX_ANSWER_CHARACTERS else None
