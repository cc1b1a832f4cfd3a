"""`ratchet why`: the whole story of one row, from its raw file to the step that took it or to the curated set."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ratchet.infra.settings import load_settings

console = Console(highlight=False)
SHOWN = 5
"""How many rows are told of when several are the same problem."""
SHOWN_ELSEWHERE = ("text", "span", "item_text", "item_span", "kept", "votes", "answers", "benchmark", "item", "also")
TEACHER = ("teacher_passes", "teacher_attempts", "teacher_tokens", "difficulty")
LONG = 80
MARK = "bold black on yellow"


def why(
    what: Annotated[str, typer.Argument(metavar="PROBLEM_ID | TEXT", help="Also SOURCE:ROW, a row of a raw file.")],
    run: Annotated[
        str | None, typer.Option("--run", help="A run, by its id (default: the last of each domain).")
    ] = None,
    recipe: Annotated[str | None, typer.Option("--recipe", help="The last run of this recipe.")] = None,
    home: Annotated[str | None, typer.Option("--home", help="Where everything is kept (default: ./.ratchet).")] = None,
) -> None:
    """What became of one row: its file, each step, and what matched what, side by side.

    Example: `ratchet why 'How far from its start does it stop?'`
    """
    from ratchet.cli.row_history import chains, find, tell

    settings = load_settings(home)
    found, likeness = find(chains(settings, run, recipe), what)
    if likeness < 1:
        console.print(f"No row holds all of this text; the nearest holds {likeness:.0%} of it.\n", style="yellow")
    for history in found[:SHOWN]:
        _tell(tell(history), settings)
    if len(found) > SHOWN:
        others = ", ".join(f"{h.source}:{h.source_id}" for h in found[SHOWN : SHOWN + 20])
        console.print(f"{len(found) - SHOWN} more rows: {others}", markup=False)


def _tell(history: Any, settings: Any) -> None:
    from ratchet.infra.artifacts import ArtifactStore

    file = history.file
    console.print(Text.assemble(("problem ", "bold"), (history.problem_id or "(it could not be read)", "bold cyan")))
    console.print(f"  row {history.source_id} of {file.path if file else history.source}", soft_wrap=True, markup=False)
    console.print(f"  run {history.chain.run}\n", markup=False)
    last = history.visits[-1].evidence if history.visits and history.visits[-1].rule else {}
    if history.prompt and not {"span", "kept", "item"} & last.keys():  # else it is shown where it was taken
        console.print(Padding(Text(_clean(history.prompt)), (0, 2, 1, 2)))
    store = ArtifactStore(settings.artifacts)
    for visit in history.visits:
        if visit.rule is None:
            console.print(Text.assemble(("✓ ", "green"), f"{visit.step}: kept", _facts(visit)))
        else:
            console.print(
                Text.assemble(("✗ ", "red"), f"{visit.step}: dropped by ", (visit.rule, "bold"), _facts(visit))
            )
            _explain(visit, store)
        _copies(visit)
    if not history.visits or history.visits[-1].rule is None:
        _end(history)
    console.print()


def _end(history: Any) -> None:
    if history.chain.curated:
        console.print(Text.assemble(("✓ ", "green"), f"curated: it is in {history.chain.curated.ref}"))
    else:
        console.print("… the run has not come further yet", style="yellow")


def _facts(visit: Any) -> Text:
    """The numbers of a visit, in brackets after it."""
    facts = {name: value for name, value in visit.evidence.items() if name not in SHOWN_ELSEWHERE}
    if "item" in visit.evidence:
        facts["item"] = f"{visit.evidence['benchmark']}:{visit.evidence['item']}"
    if visit.step in ("majority_vote", "difficulty"):
        facts |= {name: visit.row[name] for name in TEACHER if visit.row.get(name) is not None}
    if not facts:
        return Text()
    values = {name.replace("_", " "): _value(value) for name, value in facts.items()}
    short = [f"{name} {value}" for name, value in values.items() if len(value) <= LONG and "\n" not in value]
    blocks = "".join(f"\n{name}:\n{value}" for name, value in values.items() if len(value) > LONG or "\n" in value)
    told = Text(f" ({_clean(', '.join(short))})" if short else "", style="dim")
    return told.append(_clean(blocks).replace("\n", "\n    "), style="dim")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _explain(visit: Any, store: Any) -> None:
    from ratchet.cli.row_history import other_row

    evidence, prompt = visit.evidence, visit.row.get("prompt")
    other = other_row(visit, store)
    if other and prompt:
        name, text = other
        ngram = visit.artifact.manifest["parameters"].get("ngram", 1)
        console.print(_side_by_side(prompt, name, text, ngram))
        for also in evidence.get("also", []):
            console.print(
                f"    also item {also['item']} of {also['benchmark']}, coverage {also['coverage']:g}", markup=False
            )
        if "answers" in evidence:
            console.print(Text(f"    the answers differ: {_clean(' against '.join(map(str, evidence['answers'])))}"))
    elif prompt and "span" in evidence:
        console.print(Padding(_marked(prompt, [evidence["span"]]), (0, 2, 0, 4)))
    if "votes" in evidence:
        _show_votes(evidence)


def _copies(visit: Any) -> None:
    from ratchet.cli.row_history import copies

    if visit.step == "deduplicate" and visit.rule is None and (dropped := copies(visit)):
        told = ", ".join(f"{source}:{row} ({rule})" for source, row, rule in dropped[:10])
        more = f" and {len(dropped) - 10} more" if len(dropped) > 10 else ""
        console.print(f"    dropped as copies of it: {told}{more}", markup=False)


def _show_votes(evidence: dict[str, Any]) -> None:
    table = Table("answer", "votes", box=None, padding=(0, 2, 0, 4))
    for answer, count in evidence["votes"]:
        table.add_row(_clean(str(answer)), str(count))
    table.add_row(Text(_clean(f"{evidence.get('reference')}"), style="bold"), "the reference")
    console.print(table)


def _side_by_side(prompt: str, name: str, other: str, ngram: int) -> Table:
    """Both texts with every run of tokens that they share marked."""
    from ratchet.data_curation.contamination import shared_runs
    from ratchet.data_curation.tokens import tokenise

    tokens = tokenise([prompt, other])
    (a, b, end), spans = tokens.bounds.tolist(), ([], [])
    shortest = max(min(ngram, b - a, end - b), 1)
    for mine, its, length in shared_runs(tokens.hashes[a:b], tokens.hashes[b:end], shortest):
        spans[0].append(tokens.span(0, a + mine, a + mine + length - 1))
        spans[1].append(tokens.span(1, b + its, b + its + length - 1))
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1))
    for heading in ("this row", name):
        table.add_column(Text(heading), ratio=1)
    table.add_row(_marked(prompt, spans[0]), _marked(other, spans[1]))
    return table


def _marked(text: str, spans: Sequence[Sequence[int]]) -> Text:
    """The text with spans, in bytes of its UTF-8, in colour, or in double brackets where there are no colours."""
    marks: list[list[int]] = []
    for start, end in sorted(map(list, spans)):
        if marks and start <= marks[-1][1]:
            marks[-1][1] = max(marks[-1][1], end)
        else:
            marks.append([start, end])
    raw, shown, before = text.encode(errors="replace"), Text(), 0
    opening, closing = ("", "") if console.is_terminal else ("[[", "]]")
    for start, end in marks:
        shown.append(_clean(raw[before:start].decode(errors="replace")))
        shown.append(opening + _clean(raw[start:end].decode(errors="replace")) + closing, style=MARK)
        before = end
    return shown.append(_clean(raw[before:].decode(errors="replace")))


def _clean(text: str) -> str:
    """Without the characters that would move a terminal's cursor: the text is a data set's."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)
