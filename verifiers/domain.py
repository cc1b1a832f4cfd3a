"""The interface of a domain: how its problems are asked, what they need, how responses are judged and rewarded.

A domain is one class. `math`, `code`, `logic` and others are shipped (`verifiers/math/domain.py` and so on); a recipe
names your own by import path under `domains`: docs/tutorials/own_domain.md.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem, judged_fields
from ratchet.verifiers.submission import JudgeSettings, Submission

if TYPE_CHECKING:
    from ratchet.verifiers.serving.local_pool import Tools

_OPEN, _CLOSED = "<answer>", "</answer>"


@dataclass(frozen=True)
class Work:
    """A worker's task for one verdict, which depends only on `facts` and the judged `subject`."""

    problem: Problem
    subject: str
    """The answer or the program, extracted from the response."""
    facts: Sequence[Any]
    run: "Callable[[Tools], Any]"

    @functools.cached_property
    def key(self) -> bytes:
        """Equal for equal work. A digest: tests can be megabytes, and this is kept long after they are gone."""
        parts = "\0".join(repr(fact) for fact in (*self.facts, self.subject))
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()


class Domain:
    """A kind of problem. Subclasses set the attributes, and override `score`, or `judged` if a verdict takes more than
    one function in one process."""

    name: ClassVar[str]
    templates: ClassVar[Mapping[str, str]]
    """The user turn by the name of its template, with `placeholders` to fill in; a recipe replaces templates under
    `model.prompt`. By default problems use the first."""
    placeholders: ClassVar[Mapping[str, Callable[[Problem], str]]] = {
        "prompt": lambda problem: problem.prompt,
        "starter_code": lambda problem: problem.starter_code or "",
    }
    """Parts of a problem that its templates can show, by the name in braces."""
    requires: ClassVar[tuple[str, ...]] = ("answer",)
    """Fields of a problem without which no response can be judged."""
    reward: ClassVar[Literal["binary", "graded"]] = "binary"
    """The reward: 1 for a passed response and else 0, or the verdict's fraction."""
    isolation: ClassVar[Literal["inline", "process"]] = "process"
    """The process in which `score` runs: one of its own, confined and killed at its limits, or the judge, for code that
    evaluates nothing of the response and always terminates."""
    answers_vote: ClassVar[bool] = False
    """True if two answers can be compared, so that the most frequent one is the teacher's or the model's vote."""
    compares_math: ClassVar[bool] = False
    """True if `verification.math` affects its verdicts."""
    curation: ClassVar[str] = "ratchet.data_curation.domains.plain:PLAIN"
    """Import path of its `data_curation.domains.CurationPlan`."""
    runs_programs: ClassVar[bool] = False
    """True if judging runs programs that a model wrote, so that this machine needs the code sandbox."""

    def template(self, problem: Problem) -> str:
        """The name of this problem's template."""
        return next(iter(self.templates))

    def fault(self, problem: Problem) -> str:
        """The reason why no response to this problem can be judged; "" if there is none."""
        missing = [name for name in self.requires if not getattr(problem, name)]
        return f"it has no {' and no '.join(missing)}" if missing else ""

    def reference_fault(self, problem: Problem) -> str:
        """A stricter `fault`, called once for each problem of a benchmark."""
        return self.fault(problem)

    def refused_number(self, problem: Problem) -> str:
        """The number in this problem's reference if the number alone would be a wrong answer; "" otherwise."""
        return ""

    def extract(self, response: str) -> str | None:
        """The answer in a response, or None. By default the content of the last closed <answer> tags after the
        thinking."""
        text = after_thinking(response) or ""
        start = text.rfind(_OPEN, 0, max(text.rfind(_CLOSED), 0))
        return text[start + len(_OPEN) : text.find(_CLOSED, start)].strip() if start >= 0 else None

    def load(self) -> None:
        """Import and read what `score` needs, if that is slow: called once, in the process that is then forked for each
        score, before it has any problem."""

    def score(self, problem: Problem, answer: str) -> float:
        """Score an answer: from 0 to 1, 1 if it is right."""
        raise NotImplementedError(f"the domain {self.name} has neither score nor judged")

    def prepare(self, submission: Submission) -> Verdict | Work:
        """The verdict if it needs no worker, else the work for one."""
        if not submission.finished:
            return Verdict(Outcome.FAILED, decided_by="truncated")
        answer = submission.text if submission.is_program else self.extract(submission.text)
        if answer is None:
            return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer")
        return self.judged(submission.problem, answer, submission.settings)

    def judged(self, problem: Problem, answer: str, settings: JudgeSettings) -> Verdict | Work:
        """Judge the answer of a finished response, as `prepare` does."""
        if self.isolation == "inline":
            return scored(self.score(problem, answer), answer)
        facts = (self.name, *judged_fields(problem).items())  # all that `score` gets
        return Work(problem, answer, facts, lambda tools: tools.isolated(self).verify(problem, answer))

    def reference(self, problem: Problem) -> str:
        """The answer that `score` must accept, as `extract` would return it."""
        return problem.answer or ""

    def metrics(self, responses: Sequence[tuple[Problem, str]]) -> Mapping[str, float]:
        """Further numbers of a benchmark, by name; the answer of a truncated response is ""."""
        return {}

    def import_paths(self) -> tuple[str, ...]:
        """Import paths of the code that asks and judges, for artifact keys; `curation` has those of its curation."""
        return (type(self).__module__,)

    def for_judging(self, problem: Problem) -> Problem:
        """The problem without fields that no verdict depends on, for reward servers."""
        return problem

    def ground_truth(self, problem: Problem) -> str:
        """The reference for verl's reward functions. Raises `NotExpressible` if they cannot judge such a problem."""
        if not problem.answer:
            raise NotExpressible("it has no answer")
        return problem.answer


ROUNDING = 1e-9
"""How far below 1 a score still passes: 0.6 + 0.3 + 0.1 is less than 1."""


class NotExpressible(Exception):
    """A format cannot hold a part of this problem."""


def scored(score: float, answer: str) -> Verdict:
    """The verdict for a score from 0 to 1. Raises ValueError for anything else, which is a domain's bug."""
    if not isinstance(score, Real) or not 0 <= score <= 1:  # NaN too
        raise ValueError(f"a score must be from 0 to 1, not {score!r}")
    whole = score >= 1 - ROUNDING
    outcome = Outcome.PASSED if whole else Outcome.FAILED
    return Verdict(outcome, fraction=1.0 if whole else float(score), decided_by="score", extracted=answer)
