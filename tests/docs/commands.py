"""The commands that the documentation names, found in its pages and in the examples of `--help`."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
HELP = sorted((ROOT / "cli").glob("*.py"))
OURS = ("ratchet", "ratchet-judge", "make", "python", "pytest")
SHELL = ("", "bash", "sh", "console")
_INLINE = re.compile(r"(?<!`)`((?:[A-Z_]+=\S+ )*(?:ratchet|ratchet-judge|make|python|pytest) [^`\n]+)`(?!`)")
_EXAMPLE = re.compile(r"Example[^:\n]*: `(ratchet [^`\n]+)`")
_SETTING = re.compile(r"[A-Z][A-Z0-9_]*=")


@dataclass(frozen=True)
class Command:
    page: str
    text: str
    """As it stands on the page, without its comment."""
    words: tuple[str, ...]
    """The program and what follows; without settings before it and redirections."""
    in_block: bool
    """Whether it stands in a block, to be typed as it is, and not inside a sentence."""

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def commands() -> list[Command]:
    return [*(one for page in PAGES for one in _of_page(page)), *(one for file in HELP for one in _of_help(file))]


def _of_help(file: Path) -> Iterator[Command]:
    """The examples in docstrings of commands, to be typed as they are."""
    for example in _EXAMPLE.findall(file.read_text().replace(r"\\", "\\")):
        yield from _command(str(file.relative_to(ROOT)), example, in_block=True)


def _of_page(page: Path) -> Iterator[Command]:
    name, text = str(page.relative_to(ROOT)), page.read_text()
    prose = []
    for line, is_code in _lines(text):
        if is_code:
            yield from _command(name, line, in_block=True)
        elif not line.startswith("    "):
            prose.append(line)
    for found in _INLINE.finditer(" ".join(prose)):
        yield from _command(name, found[1], in_block=False)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line with whether it is one of a shell's, continued lines joined: in a fence, or indented behind an empty
    line."""
    fence, indented, before, begun = None, False, "", ""
    for line in text.splitlines():
        if mark := re.match(r"\s*```+(\w*)", line):
            fence = mark[1] if fence is None else None
            continue
        if fence is None:
            indented = line.startswith("    ") and (indented or not before.strip())
        before = line
        is_code = fence in SHELL if fence is not None else indented
        if is_code and line.rstrip().endswith("\\"):
            begun += line.strip()[:-1]
            continue
        if fence is None or is_code:
            yield begun + line.strip() if is_code else line, is_code
        begun = ""


def _command(page: str, line: str, in_block: bool) -> Iterator[Command]:
    try:
        words = shlex.split(line, comments=in_block)
        shown = " ".join(line.split(" # ")[0].split()) if in_block else line
    except ValueError:  # a sentence
        return
    while words and _SETTING.match(words[0]):
        words.pop(0)
    if words and words[0].removeprefix(".venv/bin/") in OURS:
        words[0] = words[0].removeprefix(".venv/bin/")
        end = next((n for n, word in enumerate(words) if word in (">", "|", "&&", ";")), len(words))
        yield Command(page, shown, tuple(words[:end]), in_block)


def fenced(page: str, language: str) -> list[str]:
    """The blocks of this language on a page of docs/, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
