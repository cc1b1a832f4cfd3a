"""Reports as a list of sections, rendered by templates as one self-contained HTML page and as Markdown.

All text may come from data sets and models. The templates escape it; it becomes markup only through the three marks
that `inline` knows. The words of a report are data too: a YAML file, see `compose`.
"""

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from ratchet.verifiers.yaml_files import load_yaml

PAGES = Path(__file__).parent
FIRST, LAST, MUTED, INK = "#a3adbd", "#3056d3", "#6b7280", "#1f2937"
DROPPED = "#d9730d"


@dataclass(frozen=True)
class Drawing:
    """A figure: its panels as separate SVGs, which a page can stack on a narrow screen, and one PNG of all."""

    name: str
    png: bytes
    panels: tuple[bytes, ...] = ()
    """SVG of each panel; without any, the page shows the PNG."""

    @property
    def file(self) -> str:
        """The file that the Markdown shows."""
        return f"figures/{self.name}.png"


@dataclass(frozen=True)
class Section:
    """One part of a report.

    `text` and `note` are paragraphs separated by blank lines; `table` has one dictionary per row. In all of them
    `**bold**`, `` `code` `` and `[words](https://…)` are understood.
    """

    title: str
    text: str = ""
    table: Sequence[dict[str, Any]] = ()
    group_by: str = ""
    """A column whose value heads a block of rows on the page instead of being repeated in each."""
    drawing: Drawing | None = None
    caption: str = ""
    """Caption of the drawing."""
    warning: bool = False
    folded: bool = False
    """True if the section is folded: a reader sees its title and opens it."""
    note: str = ""
    """Small print under the table."""
    queries: str = ""
    """Code that recomputes the section's numbers, shown when asked for."""

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for row in self.table for column in row))

    @property
    def numeric(self) -> set[str]:
        """The columns that line up on the right."""
        return {c for c in self.columns if all(NUMBER.match(cell(row.get(c))) for row in self.table)}


@dataclass(frozen=True)
class Headline:
    """A number for the top of the page."""

    title: str
    value: str
    change: str = ""
    detail: str = ""
    good: bool | None = None
    """True for a good change and False for a bad one, which colors it; None when it is not significant."""


@dataclass(frozen=True)
class Document:
    """A report: its title, cards, sections, and origin."""

    title: str
    subtitle: str = ""
    headlines: Sequence[Headline] = ()
    sections: Sequence[Section] = field(default_factory=list)
    origin: Mapping[str, str] = field(default_factory=dict)
    """Origin of the page, by name, below the title: its time, inputs and code."""

    @property
    def images(self) -> dict[str, bytes]:
        """Files that the Markdown links to, by name relative to it."""
        return {section.drawing.file: section.drawing.png for section in self.sections if section.drawing}


def compose(
    words: Path,
    headlines: Sequence[Headline],
    tables: Mapping[str, Sequence[dict[str, Any]]],
    drawings: Mapping[str, Drawing | None],
    more: Sequence[Section] = (),
    **facts: Any,
) -> Document:
    """The document of the YAML file `words`, with its `title`, `subtitle` and `sections` in order, followed by `more`.

    Every text in it is a template over `facts` and `tables`; a section's `queries` are a text, or texts by the figure
    that they recompute. The table and the drawing of a section have its name. A section with nothing to show is
    omitted.
    """
    texts, templates = _words(words), _templates(words.parent).overlay(autoescape=False)

    def filled(text: Any) -> Any:
        if isinstance(text, dict):
            return "\n".join(f"# {name}\n{filled(inner)}" for name, inner in text.items())
        return templates.from_string(text).render(facts, tables=tables).strip() if isinstance(text, str) else text

    sections = [
        Section(
            table=tables.get(name, ()), drawing=drawings.get(name), **{field: filled(fields[field]) for field in fields}
        )
        for name, fields in texts["sections"].items()
    ]
    shown = [section for section in sections if section.text or section.table or section.drawing]
    return Document(filled(texts["title"]), filled(texts["subtitle"]), headlines, [*shown, *more])


@cache
def _words(file: Path) -> dict[str, Any]:
    return load_yaml(file)


def to_html(document: Document) -> str:
    return render(PAGES / "document.html", **vars(document))


def to_markdown(document: Document) -> str:
    return render(PAGES / "document.md", **vars(document)).rstrip() + "\n"


def render(template: Path, **values: Any) -> str:
    """Fill in a template. Templates that it extends or includes are beside it, or in this folder."""
    return _templates(template.parent).get_template(template.name).render(values)


@cache
def _templates(directory: Path) -> Environment:
    templates = Environment(
        loader=FileSystemLoader([directory, PAGES]), autoescape=select_autoescape(["html"]), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters |= {
        "inline": inline, "cell": cell, "plain": plain, "paragraphs": paragraphs, "anchor": anchor,
        "base64": lambda data: base64.b64encode(data).decode(),
    }  # fmt: skip
    return templates


NUMBER = re.compile(r"[<±+−-]?\s?[\d.,]+( ?%)?( [±…→] [+−-]?[\d.,]+( ?%)?)*( \([\d.]+ … [\d.]+\))?$|[± ]*–$")
INLINE = re.compile(r"\*\*(?P<bold>[^*]+)\*\*|`(?P<code>[^`]+)`|\[(?P<words>[^\]]+)\]\((?P<link>[^()\s]+)\)")
SAFE_LINK = re.compile(r"(https?://|file:///|[\w./#-]+$)", re.ASCII)  # nothing that runs, such as javascript:


def inline(text: str) -> Markup:
    """Escaped HTML with bold, code and links."""
    return Markup(INLINE.sub(_mark, str(escape(text))))


def _mark(match: re.Match[str]) -> str:
    if match["bold"]:
        return f"<strong>{match['bold']}</strong>"
    if match["code"]:
        return f"<code>{match['code']}</code>"
    return f'<a href="{match["link"]}">{match["words"]}</a>' if SAFE_LINK.match(match["link"]) else match[0]


def unmarked(text: str) -> str:
    """A text in which `inline` finds no marks, on one line."""
    return re.sub(r"\s+", " ", text.replace("`", "'").replace("*", "∗").replace("](", "] ("))


def cell(value: Any) -> str:
    """A number with three decimals, an undefined one as a dash, anything else as it is."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def anchor(title: str) -> str:
    """The anchor of a heading in Markdown, as GitHub names it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, which blank lines separate."""
    return [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def plain(text: Any) -> str:
    """A text for Markdown: one line that cannot open a tag or a table cell."""
    return " ".join(str(text).split()).replace("<", "&lt;").replace("|", "\\|")
