"""The answer in a response: the text after its thinking, its boxed answer, its program.

There is no fallback ("the last number", "the bold text"): a policy rewarded through a fallback learns not to state its
answer.
"""

import re
import textwrap

MAX_ANSWER_CHARACTERS = 2048

_FENCE = re.compile(r"^[ \t]*```([^\n`]*)\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_BRACE = re.compile(r"\\boxed *\{|\\.|[{}]", re.DOTALL)
_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
LANGUAGES = {"python": ("python", "python3", "py", "py3"), "cpp": ("cpp", "c++", "cc", "cxx")}
"""How a fenced block is marked, by the language of its program."""


def after_thinking(response: str) -> str | None:
    """The text after the last `</think>`, in any case of letters; None if a `<think>` is still open at the end.

    If the prompt itself ends in `<think>` (`PromptFormat.response_prefix`), pass prefix and response joined.
    """
    last = None
    for last in _THINK.finditer(response):  # noqa: B007
        pass
    if last is None:
        return response
    return response[last.end() :] if last[1] else None


def boxed_answer(response: str) -> str | None:
    r"""The content, stripped, of the `\boxed{...}` after the thinking that opens last.

    None if there is none, or if that one is not closed (the response was truncated, and an earlier box does not count),
    is empty, or is longer than 2,048 characters.
    """
    text = after_thinking(response)
    if text is None or "\\boxed" not in text:
        return None
    answer, last = None, -1
    opened: list[int] = []  # where the content of each open brace begins; -1 for a brace that is not a box's
    for match in _BRACE.finditer(text):
        token = match[0]
        if token == "}":
            start = opened.pop() if opened else -1
            if start == last >= 0:
                answer = text[start : match.start()]
        elif token == "{":
            opened.append(-1)
        elif token.startswith("\\boxed"):
            last, answer = match.end(), None
            opened.append(last)
    return (answer.strip() or None) if answer is not None and len(answer) <= MAX_ANSWER_CHARACTERS else None


def no_answer_reason(response: str) -> str:
    """Why `boxed_answer` found none."""
    text = after_thinking(response)
    if text is None:
        return "the thinking is not closed"
    if "\\boxed" not in text:
        return "nothing is boxed after the thinking"
    return f"the last box is not closed, empty, or longer than {MAX_ANSWER_CHARACTERS} characters"


def python_program(response: str) -> str | None:
    """The last closed fenced block after the thinking that is marked as Python, else the last one; dedented."""
    blocks = marked_blocks(response)
    program = ([body for mark, body in blocks if mark in LANGUAGES["python"]] or [body for _, body in blocks] or [""])[
        -1
    ]
    return program if program.strip() else None


def marked_blocks(response: str) -> list[tuple[str, str]]:
    """The closed fenced blocks after the thinking: how each is marked, in lower case, and its text, dedented."""
    text = after_thinking(response)
    blocks = _FENCE.findall(text) if text and "```" in text else []
    return [(mark.strip().lower(), textwrap.dedent(body)) for mark, body in blocks]
