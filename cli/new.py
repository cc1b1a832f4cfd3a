"""`ratchet new`: a working, tested skeleton of a rule, a curation step or a domain, as a package of its own."""

import keyword
from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.terminal import hint, output, print_json, say
from ratchet.verifiers.errors import RatchetError, nearest

RULE = '''"""A curation rule: evidence against a problem, or None."""

import re

_LOST = re.compile(r"\\[(?:\\.\\.\\.|missing|truncated)\\]", re.IGNORECASE)


def NAME(problem, limits):
    """A part of the statement is missing, and a mark stands in its place."""
    match = _LOST.search(problem.prompt)
    return {"text": match[0], "span": list(match.span())} if match else None
'''
RULE_TEST = """from NAME import NAME

from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import Problem


def evidence(text):
    return NAME(Problem("id", "math", text), Rules())


def test_it_takes_what_it_is_for():
    assert evidence("Let $ABC$ be a triangle [...] Find $AB$.")["text"] == "[...]"


def test_it_leaves_what_only_looks_like_it():
    assert evidence("Evaluate $[1, 2, ..., 9]$ as a sum.") is None
"""
STEP = '''"""A curation step: keeps or rejects one problem at a time. Its settings are its fields."""

from dataclasses import dataclass
from typing import ClassVar

from ratchet.data_curation.steps import ProblemFilter


@dataclass(frozen=True)
class CLASS(ProblemFilter):
    """Drop statements of few words."""

    least_words: int = 4
    name: ClassVar[str] = "NAME"
    version: ClassVar[int] = 1  # raise it when the same rows and settings give other rows

    def judge(self, problem):
        words = len(problem.prompt.split())
        return {"words": words, "limit": self.least_words} if words < self.least_words else None
'''
STEP_TEST = """from NAME import CLASS

from ratchet.verifiers.problem import Problem


def test_it_rejects_with_evidence_and_keeps_the_rest():
    step = CLASS(least_words=3)
    assert step.judge(Problem("id", "math", "Add up.")) == {"words": 2, "limit": 3}
    assert step.judge(Problem("id", "math", "Find the sum of 3 and 4.")) is None
"""
DOMAIN = '''"""A domain: how its problems are asked, and how responses are judged."""

from ratchet.verifiers.domain import Domain


class CLASS(Domain):
    name = "NAME"
    templates = {"NAME": "{prompt} Give the answer in <answer> tags."}

    def score(self, problem, answer):
        """The share of the reference's words that the answer has, between 0 and 1; 1 passes."""
        wanted, given = problem.answer.split(), answer.split()
        return sum(word in given for word in wanted) / len(wanted)
'''
DOMAIN_TEST = """from NAME import CLASS

from ratchet.verifiers.problem import Problem


def test_the_score_is_the_share_that_is_right():
    problem = Problem("id", "NAME", "Name two primes below five.", answer="2 3")
    assert CLASS().score(problem, "3 and 2") == 1.0
    assert CLASS().score(problem, "3 and 4") == 0.5
    assert CLASS().score(problem, "none") == 0.0
"""
PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "DASHED"
version = "0.1.0"
dependencies = ["ratchet-rl"]

[project.entry-points."GROUP"]
NAME = "NAME:MEMBER"

[tool.setuptools]
py-modules = ["NAME"]
"""
KINDS = {
    "rule": (RULE, RULE_TEST, "ratchet.curation_rules", "curation: {math: {rules: {also: [NAME]}}}"),
    "step": (STEP, STEP_TEST, "ratchet.curation_steps", "curation: {math: {steps: [rules, NAME, deduplicate]}}"),
    "domain": (DOMAIN, DOMAIN_TEST, "ratchet.domains", "curation: {NAME: {inputs: [train.jsonl]}}"),
}


def new(
    kind: Annotated[str, typer.Argument(help=f"What to write: {', '.join(KINDS)}.", metavar="KIND")],
    name: Annotated[str, typer.Argument(help="Its name, as recipes will have it: letters, digits and _.")],
    into: Annotated[Path, typer.Option("--into", help="The directory in which its folder is made.")] = Path(),
) -> None:
    """Write a working, tested skeleton: a rule, a curation step or a domain, in a folder of its own.

    Installed, it has its name in every recipe (an entry point); beside a recipe it is named by import path.

    Example: `ratchet new rule lost_text`
    """
    if kind not in KINDS:
        raise RatchetError(f"There is no skeleton of a {kind!r}.{nearest(kind, [*KINDS])} Known: {', '.join(KINDS)}.")
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii() or name != name.lower():
        raise RatchetError(f"{name!r} is no name of a Python module: use lower-case letters, digits and _.")
    folder = into / name
    if folder.exists():
        raise RatchetError(f"{folder} is there already. Choose another name, or another directory with --into.")
    code, test, group, line = KINDS[kind]
    member = name if kind == "rule" else "".join(part.capitalize() for part in name.split("_"))
    texts = {f"{name}.py": code, f"test_{name}.py": test, "pyproject.toml": PROJECT}
    folder.mkdir(parents=True)
    for file, text in texts.items():
        for word, value in (("CLASS", member), ("MEMBER", member), ("GROUP", group),
                            ("DASHED", name.replace("_", "-")), ("NAME", name)):  # fmt: skip
            text = text.replace(word, value)
        (folder / file).write_text(text, encoding="utf-8")
    if output.json:
        print_json({"folder": str(folder), "member": f"{name}:{member}", "entry_point_group": group})
        return
    say(f"{folder}/: {', '.join(texts)}")
    hint(f"Try it: cd {folder} && python -m pytest; install it: pip install -e {folder}")
    hint(f"In a recipe: {line.replace('NAME', name)}")
