"""Curation as a list of steps: shipped ones, a recipe's own, and those of an installed package."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from ratchet.data_curation.domains import CurationPlan, plan_of
from ratchet.data_curation.rule_filter import FilterByRules
from ratchet.data_curation.rules import OTHER_RULES
from ratchet.data_curation.settings.curation import Curation, Rules
from ratchet.data_curation.split import partition
from ratchet.data_curation.steps import STEPS, CurationStep, ProblemFilter, StepContext, run_steps, step_of, steps_of
from ratchet.verifiers.domains import DOMAINS, domain_of, known_domains
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.conftest import problems


@dataclass(frozen=True)
class DropShort(ProblemFilter):
    """Drop statements of few words."""

    least_words: int = 5
    name: ClassVar[str] = "drop_short"

    def judge(self, problem):
        words = len(problem.prompt.split())
        return {"words": words} if words < self.least_words else None


class NoJudge(ProblemFilter):
    name: ClassVar[str] = "no_judge"


class NoName(ProblemFilter):
    def judge(self, problem):
        return None


def no_seven(problem, limits):
    return {"text": "7"} if "7" in problem.prompt else None


HERE = f"{__name__}:DropShort"


def test_a_program_lists_its_steps():
    prompts = "Find $7+1$ now, please.", "Prove that it holds for all n.", "Add up."
    table = problems("math", *prompts, answer=["8", "proof", "3"])
    splits = run_steps(table, [DropShort(least_words=3), FilterByRules(), "deduplicate"])
    dropped = [{rule: n for rule, n in split.summary["dropped"].items() if n} for split in splits]
    assert dropped == [{"drop_short": 1}, {"proof": 1}, {}]
    assert splits[0].rejected["evidence"].to_pylist() == ['{"words": 2}'] and len(splits[-1].kept) == 1


def test_a_recipe_lists_them_with_settings():
    listed = steps_of("math", Curation(steps=("rules", {HERE: {"least_words": 9}}, "deduplicate")))
    assert [step.name for step in listed] == ["rules", "drop_short", "deduplicate"] and listed[1] == DropShort(9)
    assert [step.name for step in steps_of("math", Curation())] == list(plan_of("math").step_names)
    assert listed[1].parameters(StepContext()) == {"least_words": 9} and listed[1].code(StepContext()) == [HERE]


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        (("rulse",), "rulse"),
        (({HERE: {"leest": 9}},), "least_words"),
        (({HERE: {"least_words": "many"}},), "DropShort: least_words: Input should be a valid integer"),
        ((f"{__name__}:NoJudge",), "NoJudge is there, but does not define judge"),
        ((f"{__name__}:NoName",), "the class NoName has no `name`"),
        ((f"{__name__}:no_seven",), r"no_seven\(problem, limits\) is there"),
        (("rules", "rules"), "twice"),
        (("rules", {"deduplicate": {}, "decontaminate": {}}), "deduplicate, decontaminate: give each step an entry"),
        (({},), "an empty entry"),
        (({"difficulty": {"max_difficulty": 99}},), "max_difficulty"),
    ],
)
def test_wrong_steps_are_named(steps, named):
    with pytest.raises(RatchetError, match=named):
        steps_of("math", Curation(steps=steps))


@dataclass(frozen=True)
class Yields(CurationStep):
    """A step that gives the first `some` rows, `times` times."""

    some: int = 2
    times: int = 1
    name: ClassVar[str] = "yields"

    def run(self, rows, context):
        table = rows.table().slice(0, self.some)
        return (partition(self.name, [], table, [None] * len(table)) for _ in range(self.times))


def test_a_step_that_loses_or_doubles_rows_is_an_error():
    table = problems("math", "What is $7+1$?", "What is $3+1$?", answer=["8", "4"])
    assert len(run_steps(table, [Yields()])[-1].kept) == 2
    for step, said in ((Yields(1), "accounts for 1 of 2"), (Yields(2, 2), "for 4 of 2"), (Yields(2, 0), "in 0 splits")):
        with pytest.raises(RatchetError, match=f"the step yields .*{said}"):
            run_steps(table, [step])
    with pytest.raises(RatchetError, match=r"length: problem .* has no teacher_tokens\. List majority_vote"):
        run_steps(table, ["length"])


def test_plans_of_before_are_answered():
    for old in ({"steps": ("normalize", "rules")}, {"teacher_steps": ("difficulty",)}):
        with pytest.raises(RatchetError, match="teacher_steps"):
            CurationPlan(plain=lambda row, columns: row, rules=(), **old)


class Judges(ProblemFilter):
    name = "judges"

    def judge(self, problem):
        return problem.answr if problem.answer == "8" else False


@pytest.mark.parametrize(
    ("answer", "said"),
    [("4", "judge returns a dict .* or None .*; for row 0 .* it returned False"),
     ("8", r"judges fails on row 0 .*AttributeError.*answr.*test_steps.py, line \d+\)")],
)  # fmt: skip
def test_a_judge_that_fails_or_gives_no_evidence_names_the_row(answer, said):
    with pytest.raises(RatchetError, match=said):
        run_steps(problems("math", "What is $7+1$?", answer=[answer]), [Judges()])


def test_a_rule_besides_the_domains():
    table = problems("math", "What is $7+1$?", "What is $3+1$?", answer=["8", "4"])
    split = run_steps(table, [FilterByRules(Rules(also=(f"{__name__}:no_seven",)))])[0]
    assert split.rejected["rule"].to_pylist() == ["no_seven"]
    with pytest.raises(RatchetError, match="no_such"):
        step_of("rules").check(StepContext(curation=Curation(rules=Rules(also=("no_such",)))))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that offers a domain, a step and a rule."""
    (tmp_path / "tilings.py").write_text(
        "from ratchet.verifiers.domain import Domain\n"
        "class Tilings(Domain):\n"
        "    name = 'tilings'\n"
        "    templates = {'tilings': '{prompt}'}\n"
        "    def score(self, problem, answer):\n"
        "        return 1.0\n"
    )
    facts = tmp_path / "tilings-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tilings\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[ratchet.domains]\ntilings = tilings:Tilings\n"
        f"[ratchet.curation_steps]\ndrop_short = {HERE}\nrules = {HERE}\n"
        f"[ratchet.curation_rules]\nno_seven = {__name__}:no_seven\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (DOMAINS, STEPS, OTHER_RULES):
        vars(registry).pop("installed", None)
    yield
    for registry in (DOMAINS, STEPS, OTHER_RULES):
        vars(registry).pop("installed", None)


def test_members_of_installed_packages_have_names(package):
    assert "tilings" in known_domains() and domain_of("tilings").name == "tilings"
    assert step_of({"drop_short": {"least_words": 2}}) == DropShort(2)
    assert isinstance(step_of("rules"), FilterByRules), "a shipped name stays the shipped member"
    assert OTHER_RULES.get("no_seven") is no_seven and OTHER_RULES.path("no_seven") == f"{__name__}:no_seven"
    with pytest.raises(RatchetError, match="drop_short"):
        STEPS.get("drop_shrot")
