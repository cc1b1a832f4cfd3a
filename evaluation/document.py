"""A report as a list of sections, rendered twice: one self-contained HTML page, and Markdown with image files.

All text may come from data sets and models: it is escaped, and becomes markup only through the three marks that
`inline` knows.
"""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ratchet.evaluation.figures import Drawing


@dataclass(frozen=True)
class Section:
    """One part of a report.

    `text` is paragraphs separated by blank lines; `table` has one dictionary per row. In both,
    `**bold**`, `` `code` `` and `[words](https://…)` are understood.
    """

    title: str
    text: str = ""
    table: list[dict[str, Any]] | None = None
    figure_png: bytes | None = None
    group_by: str = ""
    """A column whose value heads a block of rows on the page instead of being repeated in each."""
    drawing: Drawing | None = None
    warning: bool = False
    note: str = ""
    """Small print under the table."""
    queries: str = ""
    """Code that recomputes the section's numbers, shown when asked for."""


@dataclass(frozen=True)
class Headline:
    """A number for the top of the page."""

    title: str
    value: str
    change: str = ""
    detail: str = ""
    good: bool | None = None
    """Colours the change: None when it is not significant."""


@dataclass(frozen=True)
class Document:
    title: str
    subtitle: str = ""
    headlines: Sequence[Headline] = ()
    sections: Sequence[Section] = field(default_factory=list)


INLINE = re.compile(r"\*\*(?P<bold>[^*]+)\*\*|`(?P<code>[^`]+)`|\[(?P<words>[^\]]+)\]\((?P<link>[^()\s]+)\)")
SAFE_LINK = re.compile(r"(https?://|file:///|[\w./#-]+$)", re.ASCII)  # nothing that runs, such as javascript:


def inline(text: str) -> str:
    """Escaped HTML with bold, code and links."""
    parts, end = [], 0
    for match in INLINE.finditer(text):
        parts.append(html.escape(text[end : match.start()]))
        end = match.end()
        if match["bold"]:
            parts.append(f"<strong>{html.escape(match['bold'])}</strong>")
        elif match["code"]:
            parts.append(f"<code>{html.escape(match['code'])}</code>")
        elif SAFE_LINK.match(match["link"]):
            parts.append(f'<a href="{html.escape(match["link"])}">{html.escape(match["words"])}</a>')
        else:
            parts.append(html.escape(match[0]))
    return "".join(parts) + html.escape(text[end:])


def cell(value: Any) -> str:
    """A number with three decimals, an undefined one as a dash, anything else as it is."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def to_html(document: Document) -> str:
    body = [f"<header><h1>{html.escape(document.title)}</h1>"]
    if document.subtitle:
        body.append(f"<p class=subtitle>{inline(document.subtitle)}</p>")
    body.append("</header>")
    if document.headlines:
        cards = "".join(_card(headline) for headline in document.headlines)
        body.append(f"<div class=cards>{cards}</div>")
    if len(document.sections) > 3:
        links = (f"<a href='#s{i}'>{html.escape(s.title)}</a>" for i, s in enumerate(document.sections))
        body.append(f"<nav>{''.join(links)}</nav>")
    body += [_section_html(f"s{i}", section) for i, section in enumerate(document.sections)]
    return page(document.title, "".join(body), CSS)


def page(title: str, body: str, css: str) -> str:
    """A whole page around `body`, which is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing is loaded and nothing runs, whatever a data set managed to write into the page.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{html.escape(title)}</title>\n<style>{css}</style></head>\n"
        f"<body><main>{body}</main></body></html>\n"
    )


def _card(headline: Headline) -> str:
    tone = {True: "up", False: "down", None: "flat"}[headline.good]
    return (
        f"<div class=card><div class=card-title>{html.escape(headline.title)}</div>"
        f"<div class=card-value>{html.escape(headline.value)}</div>"
        f"<div class='card-change {tone}'>{html.escape(headline.change)}</div>"
        f"<div class=card-detail>{html.escape(headline.detail)}</div></div>"
    )


def _section_html(anchor: str, section: Section) -> str:
    tone = " class=warning" if section.warning else ""
    parts = [f"<section id={anchor}{tone}><h2>{html.escape(section.title)}</h2>"]
    parts += [f"<p>{inline(p)}</p>" for p in _paragraphs(section.text)]
    if section.drawing:
        caption = html.escape(section.drawing.caption)
        images = "".join(
            f'<img alt="{caption}" src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}">'
            for svg in section.drawing.panels
        )
        parts.append(f"<figure><div class=panels>{images}</div><figcaption>{caption}</figcaption></figure>")
    if section.figure_png:
        image = base64.b64encode(section.figure_png).decode()
        parts.append(f'<figure><img alt="{html.escape(section.title)}" src="data:image/png;base64,{image}"></figure>')
    if section.table:
        parts.append(_table_html(section.table, section.group_by))
    parts += [f"<p class=note>{inline(p)}</p>" for p in _paragraphs(section.note)]
    if section.queries:
        summary = "<summary>Recompute these numbers</summary>"
        parts.append(f"<details>{summary}<pre><code>{html.escape(section.queries)}</code></pre></details>")
    return "".join(parts) + "</section>\n"


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def _table_html(rows: list[dict[str, Any]], group_by: str) -> str:
    columns = [column for column in _columns(rows) if column != group_by]
    numeric = {
        column
        for column in columns
        if all(isinstance(row.get(column), int | float | None) or _NUMBER.match(str(row.get(column))) for row in rows)
    }
    tag = {column: " class=n" if column in numeric else "" for column in columns}
    head = "".join(f"<th{tag[c]}>{html.escape(c)}</th>" for c in columns)
    body, group = [], None
    for row in rows:
        if group_by and row.get(group_by) != group:
            group = row.get(group_by)
            body.append(f"<tr class=group><td colspan={len(columns)}>{inline(cell(group))}</td></tr>")
        body.append("<tr>" + "".join(f"<td{tag[c]}>{inline(cell(row.get(c)))}</td>" for c in columns) + "</tr>")
    return f"<div class=table><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"


_NUMBER = re.compile(r"[<±+−-]?\s?[\d.,]+( ?%)?( [±…] [+−-]?[\d.,]+( ?%)?)*$|[± ]*–$")


def to_markdown(document: Document) -> tuple[str, dict[str, bytes]]:
    """The Markdown text and the images it links to, by file name relative to it."""
    lines = [f"# {_plain(document.title)}", ""]
    images: dict[str, bytes] = {}
    if document.subtitle:
        lines += [_plain(document.subtitle), ""]
    for headline in document.headlines:
        lines.append(_plain(f"- **{headline.title}**: {headline.value} {headline.change} ({headline.detail})"))
    for number, section in enumerate(document.sections):
        lines += ["", f"## {_plain(section.title)}", ""]
        for paragraph in _paragraphs(section.text):
            lines += [_plain(paragraph), ""]
        if section.drawing:
            name = f"figures/{section.drawing.name}.png"
            images[name] = section.drawing.png
            lines += [f"![{_plain(section.drawing.caption)}]({name})", ""]
        if section.figure_png:
            name = f"figures/section-{number}.png"
            images[name] = section.figure_png
            lines += [f"![{_plain(section.title)}]({name})", ""]
        if section.table:
            columns = _columns(section.table)
            lines += ["| " + " | ".join(map(_plain, columns)) + " |", "|" + " --- |" * len(columns)]
            lines += ["| " + " | ".join(_plain(cell(row.get(c))) for c in columns) + " |" for row in section.table]
            lines.append("")
        for paragraph in _paragraphs(section.note):
            lines += [_plain(paragraph), ""]
        if section.queries:  # indented: no text can end the block
            lines += ["Recompute these numbers:", "", *(f"    {line}" for line in section.queries.splitlines()), ""]
    return "\n".join(lines).rstrip() + "\n", images


def _paragraphs(text: str) -> list[str]:
    return [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def _plain(text: str) -> str:
    """One line that cannot open a tag or a table cell."""
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")


CSS = """
:root{--ink:#1f2937;--muted:#667085;--line:#e5e8ee;--paper:#fff;--ground:#f5f6f9;--accent:#3056d3;--up:#0b7a5b;--down:#b42318}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
 font:15px/1.55 Inter,"Segoe UI","Helvetica Neue",Arial,"DejaVu Sans",sans-serif}
main{max-width:1140px;margin:0 auto;padding:36px 24px 64px}
header{margin-bottom:22px}
h1{font-size:28px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:18px;margin:0 0 10px;letter-spacing:-.005em}
.subtitle{color:var(--muted);margin:0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(220px,1fr));gap:14px;margin-bottom:18px}
.card,section{background:var(--paper);border:1px solid var(--line);border-radius:12px;
 box-shadow:0 1px 2px rgba(16,24,40,.04)}
.card{padding:16px 18px}
.card-title{color:var(--muted);font-size:13px}
.card-value{font-size:27px;font-weight:650;letter-spacing:-.02em;margin:2px 0;font-variant-numeric:tabular-nums}
.card-change{font-weight:600;font-variant-numeric:tabular-nums}
.up{color:var(--up)}.down{color:var(--down)}.flat{color:var(--muted)}
.card-detail{color:var(--muted);font-size:13px}
nav{display:flex;flex-wrap:wrap;gap:6px 16px;margin:0 2px 18px;font-size:13.5px}
a{color:var(--accent);text-decoration:none}
a:hover{text-decoration:underline}
section{padding:20px 22px;margin-bottom:16px;scroll-margin-top:12px}
section>p{max-width:75ch;margin:0 0 12px}
p.note{color:var(--muted);font-size:13px;margin:10px 0 0}
figure{margin:6px 0 4px}
figure img{display:block;width:100%;height:auto}
figcaption{color:var(--muted);font-size:13px;margin-top:8px}
.panels img:only-child{max-width:860px}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:10px 18px}
.table{overflow-x:auto;margin:8px -4px 0;-webkit-overflow-scrolling:touch}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{color:var(--muted);font-weight:600;font-size:12.5px;text-align:left;
 border-bottom:1px solid #cfd4de;vertical-align:bottom}
th,td{padding:6px 8px}
td{border-bottom:1px solid var(--line);vertical-align:top}
td:first-child:not([colspan]){min-width:9em}
.n{text-align:right}
td.n{white-space:nowrap}
.group td{font-weight:600;padding-top:14px;background:var(--paper)}
tr:last-child td{border-bottom:0}
tbody tr:hover{background:#f8f9fc}
details{margin-top:10px;font-size:13px}
summary{color:var(--muted);cursor:pointer}
details pre{overflow-x:auto;background:#f8f9fc;border:1px solid var(--line);border-radius:8px;padding:10px 12px}
details code{background:none;padding:0}
.warning{border-color:#e6b450;background:#fffaf0}
code{background:#eef0f5;border-radius:4px;padding:1px 5px;
 font:12.5px/1.4 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media(max-width:640px){main{padding:22px 12px 40px}section{padding:16px 14px}h1{font-size:23px}}
@media print{body{background:#fff}section,.card{box-shadow:none;break-inside:avoid}nav{display:none}}
"""
