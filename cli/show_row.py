"""Print the history of one row, from its raw file to the step that dropped it or to the curated set."""

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ratchet.cli.terminal import clean, columns, console, output, print_json, say
from ratchet.data_curation.decontamination.overlaps import shared_runs
from ratchet.data_curation.funnel import item_met, row_that_stays
from ratchet.data_curation.tokens import tokenize_texts
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.tasks.row_history import Chain, Visit, chains, copies, find, other_row, visits

SHOWN = 5
"""Most rows shown when several are the same problem."""
SHOWN_ELSEWHERE = ("text", "span", "item_text", "item_span", "kept", "votes", "answers", "benchmark", "item")
TEACHER = ("teacher_passes", "teacher_attempts", "teacher_tokens", "difficulty")
MARK = "bold black on yellow"


def show_row(settings: Settings, what: str, run: str | None, recipe: str | None) -> None:
    """Show each step's decision about the rows that `what` names, with matching texts side by side."""
    rows = find(chains(settings, run, recipe), what)
    if output.json:
        print_json([_history(chain, row) for chain, row in rows])
        return
    for chain, row in rows[:SHOWN]:
        _show(chain, row, ArtifactStore(settings.artifacts))
    if len(rows) > SHOWN:
        others = ", ".join(f"{row['source']}:{row['source_id']}" for _, row in rows[SHOWN : SHOWN + 20])
        console.print(f"{len(rows) - SHOWN} more rows: {others}", markup=False)


def _history(chain: Chain, row: dict[str, Any]) -> dict[str, Any]:
    """The history as data: `dropped_by` is null for a step that kept the row."""
    steps = [{"step": v.step, "dropped_by": v.rule, "evidence": v.evidence} for v in visits(chain, row)]
    names = ("problem_id", "source", "source_id", "prompt")
    file = str(chain.file(row["source"]))
    return {**{name: row[name] for name in names}, "file": file, "run": chain.run, "steps": steps}


def _show(chain: Chain, row: dict[str, Any], store: ArtifactStore) -> None:
    history = list(visits(chain, row))
    console.print(Text.assemble(("problem ", "bold"), (row["problem_id"] or "(it could not be read)", "bold cyan")))
    say(f"  row {row['source_id']} of {chain.file(row['source'])}")
    console.print(f"  run {chain.run}\n", markup=False)
    dropped = bool(history) and history[-1].rule is not None
    if row["prompt"] and not (dropped and {"span", "kept", "item"} & history[-1].evidence.keys()):
        console.print(Padding(clean(row["prompt"]), (0, 2, 1, 2)))  # else the step that dropped it shows it
    for visit in history:
        if visit.rule is None:
            console.print(Text.assemble(("✓ ", "green"), f"{visit.step}: kept", _facts(visit)))
            if visit.step == "deduplicate" and (same := copies(visit)):
                more = f" and {len(same) - 10} more" if len(same) > 10 else ""
                console.print(f"    dropped as copies of it: {', '.join(same[:10])}{more}", markup=False)
        else:
            mark, rule = ("✗ ", "red"), (visit.rule, "bold")
            console.print(Text.assemble(mark, f"{visit.step}: dropped by ", rule, _facts(visit)))
            _explain(visit, store)
    if not dropped and chain.curated:
        console.print(Text.assemble(("✓ ", "green"), f"curated: it is in {chain.curated.ref}"))
    elif not dropped:
        console.print("… no later step has finished yet", style="yellow")
    console.print()


def _facts(visit: Visit) -> Text:
    """The evidence of a visit: short values in brackets, long ones below."""
    met = item_met(visit.evidence)
    hidden = {*SHOWN_ELSEWHERE} if met or row_that_stays(visit.evidence) else {*SHOWN_ELSEWHERE} - {"kept", "item"}
    facts = {name: value for name, value in visit.evidence.items() if name not in hidden}
    if met:
        facts["item"] = ":".join(map(str, met))
    if visit.step in ("majority_vote", "difficulty"):
        facts |= {name: visit.row[name] for name in TEACHER if visit.row.get(name) is not None}
    texts = {
        n.replace("_", " "): v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for n, v in facts.items()
    }
    long = {name: text for name, text in texts.items() if len(text) > 80 or "\n" in text}
    short = ", ".join(f"{name} {text}" for name, text in texts.items() if name not in long)
    below = "".join(f"\n{name}:\n{text}" for name, text in long.items()).replace("\n", "\n    ")
    facts_text = clean((f" ({short})" if short else "") + below)
    facts_text.stylize("dim")
    return facts_text


def _explain(visit: Visit, store: ArtifactStore) -> None:
    """The match beside the row, the span a rule found, or the votes."""
    evidence, prompt = visit.evidence, visit.row.get("prompt")
    if prompt and (other := other_row(visit, store)):
        console.print(_side_by_side(prompt, *other, visit.artifact.manifest.parameters.get("ngram", 1)))
        if "answers" in evidence:
            console.print(clean(f"    the answers differ: {' against '.join(map(str, evidence['answers']))}"))
    elif prompt and "span" in evidence:
        console.print(Padding(_marked(prompt, [evidence["span"]]), (0, 2, 0, 4)))
    if "votes" in evidence:
        table = columns("    answer", "votes")
        for answer, count in [*evidence["votes"], (evidence.get("reference"), "the reference")]:
            table.add_row(clean(f"    {answer}"), str(count))
        console.print(table)


def _side_by_side(prompt: str, name: str, other: str, ngram: int) -> Table:
    """Both texts, with every shared run of tokens marked."""
    tokens = tokenize_texts([prompt, other])
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
    """The text with these spans (bytes of its UTF-8) in color, or in double brackets without a terminal."""
    marks: list[list[int]] = []
    for start, end in sorted(map(list, spans)):
        if marks and start <= marks[-1][1]:
            marks[-1][1] = max(marks[-1][1], end)
        else:
            marks.append([start, end])
    raw, shown, before = text.encode(errors="replace"), Text(), 0
    opening, closing = ("", "") if console.is_terminal else ("[[", "]]")
    for start, end in marks:
        shown.append(clean(raw[before:start].decode(errors="replace")))
        shown.append(opening + clean(raw[start:end].decode(errors="replace")).plain + closing, style=MARK)
        before = end
    return shown.append(clean(raw[before:].decode(errors="replace")))
