"""The tables of fidelity: `python -m docs.tools.fidelity` makes docs/evidence/{acereason,prorl}.md from docs/facts.

Each fact is a claim of a paper with its value and section, where it lives here, and its state; what a recipe has is
read from the recipe, and a test fails where that is not what the fact says. `findings` names pre-registered experiments
(`FAMILY: EXPERIMENT`, docs/evidence/findings.md), whose outcomes are read from their artifacts' record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from docs.tools.rehearsals import DOCS, RECORD
from ratchet.infra.recipe import load_recipe

FACTS = sorted((DOCS / "facts").glob("*.yaml"))
MAIN = {"acereason": "acereason-7b", "justrl": "justrl-1.5b", "prorl": "prorl-1.5b"}
STATES = {
    "miniature": "run in miniature", "rehearsed": "rehearsed", "set": "set", "target": "target", "absent": "absent",
}  # fmt: skip


@cache
def fields_of(recipe: str) -> Any:
    return load_recipe(recipe).model_dump(mode="json")


def facts_in(file: Path) -> Iterator[dict[str, Any]]:
    for section in yaml.safe_load(file.read_text())["sections"]:
        yield from section["facts"]


def values(recipe: str, field: str) -> list[Any]:
    """What the recipe has there; `*` is every element of a list, so there may be several."""
    found = [fields_of(recipe)]
    for part in field.split("."):
        if part == "*":
            found = [inner for value in found for inner in value]
        else:
            found = [value[int(part)] if isinstance(value, list) else value[part] for value in found]
    return found


def named(key: str, main: str) -> tuple[str, str]:
    recipe, separator, field = key.rpartition(":")
    return (recipe, field) if separator else (main, field)


def differing(file: Path) -> list[str]:
    """Where a recipe does not have what the facts say."""
    wrong = []
    for fact in facts_in(file):
        for key, value in fact.get("recipe", {}).items():
            recipe, field = named(key, MAIN[file.stem])
            has = values(recipe, field)
            if not has or any(one != value for one in has):
                wrong.append(f"{fact['claim']}: {recipe} has {field} {has}, the facts say {value!r}")
    return wrong


def not_seen(file: Path) -> list[str]:
    """Mechanisms that facts name and no rehearsal has seen."""
    results = json.loads(RECORD.read_text())
    missing = []
    for fact in facts_in(file):
        for key in fact.get("mechanisms", ()):
            recipe = next((name for name in results if key.startswith(f"{name}:")), "")
            mechanism = key.removeprefix(f"{recipe}:") if recipe else key
            row = results[recipe or MAIN[file.stem]]["mechanisms"].get(mechanism)
            if not (row and row["seen"]):
                missing.append(f"{fact['claim']}: {key}")
    return missing


def outcome(finding: str) -> str:
    """What a pre-registered experiment showed, in a few words."""
    family, _, name = finding.partition(": ")
    result = json.loads((DOCS / "facts" / "experiments" / f"{family}.json").read_text())["results"][name]
    words = result["verdict"]
    if "difference" in result:
        words += f" ({result['difference']:+.2f}, {result['low']:+.2f} to {result['high']:+.2f})"
    return f"pre-registered, [{name}](findings.md#{family}): {words}"


def page(file: Path) -> str:
    document, main = yaml.safe_load(file.read_text()), MAIN[file.stem]
    counted = {state: sum(fact["state"] == state for fact in facts_in(file)) for state in STATES}
    lines = [
        f"# {document['title']}",
        "",
        f"- Of {sum(counted.values()) - counted['target']} claims {counted['miniature']} are *run in miniature* here.",
        f"- {counted['rehearsed']} are *rehearsed*: their mechanisms were seen to happen ([which](rehearsals.md)).",
        f"- {counted['set']} are *set*: a recipe has the value, which no rehearsal shows.",
        f"- {counted['absent']} are absent, with the reason.",
        f"- {counted['target']} further rows are *targets*: results of the paper, which nobody has reproduced here.",
        "",
        document["paper"].strip(),
        "",
        f"Fields are those of `{main}` where no other recipe is named. This page is made from `docs/facts/{file.name}` "
        "(`python -m docs.tools.fidelity`); a test compares every value with its recipe and every mechanism with the "
        "rehearsals. *Pre-registered* are experiments on synthetic tasks that were written down before they were run "
        "([findings](findings.md)).",
        "",
    ]
    lines += [f"- {note.strip()}" for note in document["notes"]]
    for section in document["sections"]:
        lines += [
            "",
            f"## {section['title']}",
            "",
            "| claim | in the paper | where | here | state |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(fact, main) for fact in section["facts"]]
    return "\n".join(lines) + "\n"


def _row(fact: Mapping[str, Any], main: str) -> str:
    here = []
    for key, value in fact.get("recipe", {}).items():
        recipe, field = named(key, main)
        here.append(f"{'' if recipe == main else f'`{recipe}`: '}`{field}` {json.dumps(value, ensure_ascii=False)}")
    if "code" in fact:
        here.append(f"`{fact['code']}`")
    seen = ", ".join(fact.get("mechanisms", ()))
    state = STATES[fact["state"]] + (f" ({seen})" if seen else "") + (f": {fact['reason']}" if "reason" in fact else "")
    state += " (the number was not read in the source itself)" if fact.get("unverified") else ""
    state += "".join(f"; {outcome(finding)}" for finding in fact.get("findings", ()))
    cells = [fact["claim"], fact["value"], fact["in"], "; ".join(here), state]
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    for file in FACTS:
        (DOCS / "evidence" / f"{file.stem}.md").write_text(page(file))


if __name__ == "__main__":
    main()
