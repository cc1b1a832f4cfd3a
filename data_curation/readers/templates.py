"""Templates that published data sets put around a statement ("Let's think step by step …"), and their removal.

Otherwise all rows would share the n-grams of a template, and the recipe's own prompt would enclose another one.
"""

import re
import unicodedata
from pathlib import Path

import yaml

_PLACES = {"start": r"\A\s*(?:%s)", "end": r"(?:%s)\s*\Z"}
TEMPLATES = {
    name: re.compile(_PLACES[place] % "".join(parts), re.DOTALL | re.IGNORECASE)
    for name, at in yaml.safe_load(Path(__file__).with_name("templates.yaml").read_text()).items()
    for place, parts in at.items()
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
