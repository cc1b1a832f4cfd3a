"""How well rules do on published statements that were read and labeled by hand.

`tests/data_curation/rules/public_labels.jsonl` has, for each rule, the identities (`problem_id`) of the statements that
it should take and of those that it should leave. `half` says what the labels were for: U are of files that no rule was
fixed on, B and V were looked at once; the others were fixed on. The texts are public, and not here: give files that
hold them, of any layout with a column of statements, and directories with `problem.md` (Codeforces) or `problem.html`
files (Google's competitions), or with a textbook in CNXML or PreTeXt.

    python -m benchmarks.public_rules DATA/*.json* codeforces/ osbooks-prealgebra-bundle/ APEXCalculusPTX/
"""

from __future__ import annotations

import argparse
import html
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.book_exercises import exercises
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.readers.columns import RawRow
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS
from ratchet.data_curation.readers.raw_files import Malformed, read_rows
from ratchet.data_curation.readers.templates import clean_statement
from ratchet.data_curation.rules.pictures import IN_CODE
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import Problem, problem_id

LABELS = Path(__file__).parents[1] / "tests" / "data_curation" / "rules" / "public_labels.jsonl"
STATEMENTS = (
    "instruction", "intent", *MATH_COLUMNS["prompt"], "text", "informal_statement", "problem_text",
    "problem_description", "query", "Problem", "Q", "original_text",
)  # fmt: skip
_PRE = re.compile(r"<pre[^>]*>(.*?)</pre>", re.DOTALL)


def labels() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LABELS.read_text().splitlines()]


def problems(paths: Iterable[Path]) -> Iterator[Problem]:
    """Every statement in the files, as a problem of either domain; one with a drawing in code also without it."""
    for path in paths:
        if path.is_dir():
            tasks = ({"text": statement(p.read_text())} for p in sorted(path.rglob("problem.md")))
            pages = ({"text": _text(_PRE.sub(r"\n\1\n", p.read_text()))} for p in sorted(path.rglob("problem.html")))
            printed = ({"text": text, "answer": answer} for text, answer in exercises(path))
            rows: Iterable[Any] = chain(tasks, pages, printed)
        else:
            rows = read_rows(path)
        for row in rows:
            if isinstance(row, Malformed):
                continue
            context = "".join(
                f"{row[n]}{gap}" for n, gap in (("context", "\n\n"), ("Body", " "), ("body", " ")) if row.get(n)
            )
            text = next((row[name] for name in STATEMENTS if isinstance(row.get(name), str)), "")
            try:
                answer = RawRow(row).take_answer(*MATH_COLUMNS["answer"])
            except Malformed:
                answer = None
            for prompt in {clean_statement(context + said).text for said in (text, IN_CODE.sub(" ", text))}:
                for domain in ("math", "code"):
                    yield Problem(problem_id(domain, prompt), domain, prompt, answer=answer)


def statement(markup: str) -> str:
    """The text of a statement in HTML, its pictures as Markdown has them, each section once."""
    sections = re.split(r"^## (.+)$", markup, flags=re.MULTILINE)
    of = dict(zip(sections[1::2], sections[2::2], strict=True))
    opening, *named = re.split(r'<div class="(input|output)-specification">', of.pop("Description", ""))
    parts = [_text(opening)]
    parts += [f"{name.title()}\n\n{_text(body)}" for name, body in zip(named[::2], named[1::2], strict=True)]
    parts += [f"{name}\n\n{_text(body)}" for name, body in of.items() if name not in ("Input", "Output")]
    return "\n\n".join(parts)


def _text(markup: str) -> str:
    for pattern, plain in (
        (r'<img[^>]*src="([^"]*)"[^>]*>', r"![](\1)"), (r"</p>|<br ?/?>|</div>|</li>", "\n"), (r"<li>", "- "),
        (r"<sup[^>]*>(.*?)</sup>", r"^{\1}"), (r"<sub[^>]*>(.*?)</sub>", r"_{\1}"), (r"</?[a-zA-Z][^>]*>", ""),
    ):  # fmt: skip
        markup = re.sub(pattern, plain, markup)
    return re.sub(r"\n\s*\n+", "\n\n", html.unescape(markup)).strip()


def measured(paths: Iterable[Path]) -> Iterator[tuple[str, str, str, int, int, int, int]]:
    """(domain, rule, half, rightly taken, wrongly taken, missed, rightly left) of the labeled statements found."""
    found = {problem.problem_id: problem for problem in problems(paths)}
    for label in labels():
        rule = next(rule for rule in plan_of(label["domain"]).rules if rule.__name__ == label["rule"])
        counts = [
            sum((rule(found[key], Rules()) is not None) == taken for key in label[side] if key in found)
            for side, taken in (("takes", True), ("leaves", True), ("takes", False), ("leaves", False))
        ]
        yield (label["domain"], label["rule"], label["half"], *counts)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+")
    print(
        "| domain | rule | half | taken: right | wrong | left: right | missed | precision | recall |\n|---|---|---|"
        + "---:|" * 6
    )
    for domain, rule, half, right, wrong, missed, left in measured(parser.parse_args().paths):
        precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
        print(
            f"| {domain} | {rule} | {half} | {right} | {wrong} | {left} | {missed} | {precision:.3f} | {recall:.3f} |"
        )


if __name__ == "__main__":
    main()
