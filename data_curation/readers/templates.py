"""Templates that published data sets put around a statement ("Let's think step by step …"), and their removal.

Otherwise all rows would share the n-grams of a template, and the recipe's own prompt would enclose another one.
"""

import re
import unicodedata


def _prefix(text: str) -> re.Pattern[str]:
    return re.compile(rf"\A\s*(?:{text})", re.DOTALL | re.IGNORECASE)


def _suffix(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{text})\s*\Z", re.DOTALL | re.IGNORECASE)


# Removed only at the start or the end of a statement. Each is named after its source.
TEMPLATES: dict[str, re.Pattern[str]] = {
    "leetcode_dataset_code": _suffix(r"\n[^\n]*please complete the following python code precisely:\s*```.*?```"),
    "rllm_code": _prefix(
        r"please solve the programming task below using a self-contained code snippet in a markdown code block\.\s*"
    ),
    "livecodebench_opening": _prefix(
        r"(?:you are an expert python programmer\.\s*)?you will be given a question \(problem specification\) and will "
        r"generate a correct python program that matches the specification and passes all tests\."
        r"(?:[^\n]*\n)+?\s*#{2,3} question:"
    ),
    "livecodebench_format": _suffix(r"#{2,3} format:[^\n]*\n(?:(?!#{2,3} format:).)*"),
    "dapo_opening": _prefix(
        r"solve the following math problem step by step\. the last line of your response should be of the form "
        r"answer: \$?\\?answer\b[^\n]*\n"
    ),
    "dapo_reminder": _suffix(r"remember to put your answer on its own line after \"answer:\"\.?"),
    "verl_boxed": _suffix(r"(?:let'?s think step by step and|please) output the final answer within \\boxed\{\}\.?"),
    "reason_boxed": _suffix(
        r"(?:please )?reason step by step,? and put your final answer (?:with)?in(?:side)? \\boxed\{\}\.?"
    ),
    "return_boxed": _suffix(r"(?:please )?return your final response within \\boxed\{\}\.?[^\n]{0,200}"),
    "eurus_math": _suffix(r"present the answer in latex format: \\boxed\{your answer\}\.?"),
    "eurus_code": _suffix(
        r"write python code to solve the problem\. present the code in\s*```python\s*your code\s*```\s*at the end\.?"
    ),
    "ratchet_math": _suffix(r"reason step by step and put the final answer in \\boxed\{\}\.?"),
    "ratchet_code": _suffix(r"write python code that solves the problem, in one fenced ```python block\.?"),
    "ratchet_starter": _suffix(
        r"start from this function header:\s*```.*?```\s*give the whole program in one fenced ```python block\.?"
    ),
    "question_heading": _prefix(r"(?:#{1,4}\s*|\*\*)(?:question|problem)(?: statement)?\s*:?\s*(?:\*\*)?\s*:?\s*\n"),
}

_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_INVISIBLE = re.compile("[\u0000-\u0008\u000b\u000c\u000e-\u001f\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff]")


def clean_statement(text: str) -> tuple[str, list[str]]:
    """The statement without typographic accidents and templates, and the names of the templates."""
    return strip_templates(clean_text(text))


def clean_text(text: str) -> str:
    """NFC, one kind of line end and of space, no invisible characters, no blanks at the ends."""
    text = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    text = _INVISIBLE.sub("", _SPACES.sub(" ", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def strip_templates(text: str) -> tuple[str, list[str]]:
    """The statement without templates, and their names, outermost first."""
    names: list[str] = []
    changed = True
    while changed:
        changed = False
        for name, pattern in TEMPLATES.items():
            stripped = pattern.sub("", text, count=1).strip()
            if stripped != text:
                text, changed = stripped, True
                names.append(name)
    return text, names
