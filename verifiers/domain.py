"""What a domain is: how its problems are asked, what they need, how responses are judged and rewarded.

A domain is one class. `math`, `code` and `logic` are shipped (`verifiers/math/domain.py` and so on); anyone's own is
named by import path under `domains` in a recipe: docs/own_domain.md.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import Problem
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.registry import Registry
from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.submission import JudgeSettings, Submission

if TYPE_CHECKING:
    from ratchet.verifiers.serving.local_pool import Tools

OWN_DOMAINS = "RATCHET_DOMAINS"
"""Import paths of the domains that a recipe brings along; in the environment, so that child processes know them."""
JUDGED_FIELDS = (
    "problem_id", "domain", "prompt", "starter_code", "answer", "tests", "entry_point", "time_limit_s",
    "memory_limit_mb", "metadata",
)  # fmt: skip
"""Of a problem, what a verdict may depend on (`Domain.for_judging` leaves out more): what other processes are sent."""
_OPEN, _CLOSED = "<answer>", "</answer>"


@dataclass(frozen=True)
class Work:
    """What one worker has to do for a verdict, which depends on `facts` and the judged `subject` alone."""

    problem: Problem
    subject: str
    """The answer or the program, as extracted from the response."""
    facts: Sequence[Any]
    run: "Callable[[Tools], Verdict]"


class Domain:
    """A kind of problem. Subclasses set the attributes, and either `score` or, where a verdict takes more than one
    function in one process, `judged`."""

    name: ClassVar[str]
    templates: ClassVar[Mapping[str, str]]
    """The user turn by the name of its template, `{prompt}` and `{starter_code}` filled in; a recipe replaces any of
    them under `model.prompt`. The first is the one that `template` gives unless it is overridden."""
    requires: ClassVar[tuple[str, ...]] = ("answer",)
    """Fields without which no response to a problem can be judged."""
    reward: ClassVar[Literal["binary", "graded"]] = "binary"
    """Whether the reward is 1 for a passed response and else 0, or the verdict's fraction."""
    isolation: ClassVar[Literal["inline", "process"]] = "process"
    """Where `score` runs: in a confined process of its own that is killed at its limits, or, for code that evaluates
    nothing of the response and always ends, in the judge."""
    answers_vote: ClassVar[bool] = False
    """Whether two answers can be compared, so that the most frequent one is the teacher's or the model's vote."""
    compares_math: ClassVar[bool] = False
    """Whether `verification.math` has a say in its verdicts."""
    curation: ClassVar[str] = "ratchet.data_curation.domains.plain:PLAIN"
    """How its problems are curated: where a `data_curation.domains.CurationPlan` stands."""
    runs_programs: ClassVar[bool] = False
    """Whether judging runs programs that a model wrote, so that the code sandbox must hold on this machine."""
    verl_reward: ClassVar[str] = ""
    """The `data_source` under which verl's own reward functions judge such problems."""

    def template(self, problem: Problem) -> str:
        """The name of the template for this problem."""
        return next(iter(self.templates))

    def fault(self, problem: Problem) -> str:
        """Why no response to this problem can be judged; "" when responses can."""
        missing = [name for name in self.requires if not getattr(problem, name)]
        return f"it has no {' and no '.join(missing)}" if missing else ""

    def reference_fault(self, problem: Problem) -> str:
        """A closer look than `fault`, taken once for each problem of a benchmark."""
        return self.fault(problem)

    def extract(self, response: str) -> str | None:
        """The answer that a response gives; None when it gives none. By default what stands between the last pair of
        <answer> tags after the thinking; one that is still open at the end is no answer."""
        text = after_thinking(response) or ""
        start = text.rfind(_OPEN, 0, max(text.rfind(_CLOSED), 0))
        return text[start + len(_OPEN) : text.find(_CLOSED, start)].strip() if start >= 0 else None

    def load(self) -> None:
        """Import and read what `score` needs, where that takes long: called once, in the process that is then forked
        for each score, before it has seen any problem."""

    def score(self, problem: Problem, answer: str) -> float:
        """From 0 to 1, the latter for an answer that is right."""
        raise NotImplementedError(f"the domain {self.name} has neither score nor judged")

    def prepare(self, submission: Submission) -> Verdict | Work:
        """The verdict where it takes no worker, else what a worker has to do."""
        if not submission.finished:
            return Verdict(Outcome.FAILED, decided_by="truncated")
        answer = submission.text if submission.is_program else self.extract(submission.text)
        if answer is None:
            return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer")
        return self.judged(submission.problem, answer, submission.settings)

    def judged(self, problem: Problem, answer: str, settings: JudgeSettings) -> Verdict | Work:
        """The same for the answer of a response that ended."""
        if self.isolation == "inline":
            return scored(self.score(problem, answer), answer)
        facts = (self.name, problem.problem_id, problem.metadata, *(getattr(problem, field) for field in self.requires))
        return Work(problem, answer, facts, lambda tools: tools.isolated(self).verify(problem, answer))

    def reference(self, problem: Problem) -> str:
        """The reference in full, for a model that reads it."""
        return problem.answer or ""

    def is_open(self, problem: Problem, verdict: Verdict) -> bool:
        """Whether a judge model may still find the answer right: it failed because it could not be compared with the
        reference, not because it differs."""
        return False

    def metrics(self, responses: Sequence[tuple[Problem, str]]) -> Mapping[str, float]:
        """What is reported of a benchmark beside the shares of responses that pass, by name; "" stands for a response
        that did not end."""
        return {}

    def for_judging(self, problem: Problem) -> Problem:
        """The problem without what no verdict depends on: what a reward server is sent."""
        return problem

    def ground_truth(self, problem: Problem) -> str:
        """What verl's reward functions compare with. Raises `NotExpressible` where they cannot judge such a problem."""
        if not problem.answer:
            raise NotExpressible("it has no answer")
        return problem.answer


class NotExpressible(Exception):
    """A format has no place for something that this problem cannot do without."""


def scored(score: float, answer: str) -> Verdict:
    """The verdict of a score from 0 to 1. Raises ValueError for any other number: a domain's mistake."""
    if not 0 <= score <= 1:  # NaN too
        raise ValueError(f"a score must be from 0 to 1, not {score!r}")
    outcome = Outcome.PASSED if score == 1 else Outcome.FAILED
    return Verdict(outcome, fraction=float(score), decided_by="score", extracted=answer)


def _is_domain(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Domain) and value is not Domain


DOMAINS: Registry[type[Domain]] = Registry(
    "domain",
    {
        "math": "ratchet.verifiers.math.domain:Math",
        "code": "ratchet.verifiers.code.domain:Code",
        "instructions": "ratchet.verifiers.instructions.domain:Instructions",
        "science": "ratchet.verifiers.science.domain:Science",
        "logic": "ratchet.verifiers.logic.domain:Logic",
    },
    _is_domain,
)
_instances: dict[str, Domain] = {}


def domain_of(name: str) -> Domain:
    """The domain of this name: a shipped one, or one that a recipe brought along. Raises RatchetError that names the
    known ones."""
    if name not in _instances:
        own = _own_domains()
        if name not in own and name not in DOMAINS:
            raise DOMAINS.unknown(name, own)
        _instances[name] = (own.get(name) or DOMAINS.get(name))()
    return _instances[name]


def known_domains() -> list[str]:
    """Names of the shipped domains and of those that a recipe brought along."""
    return [*DOMAINS.shipped, *_own_domains()]


def _own_domains() -> dict[str, type[Domain]]:
    from ratchet.verifiers.environments.domain import declared_environments

    own = map(DOMAINS.load, filter(None, os.environ.get(OWN_DOMAINS, "").split(",")))
    return {**{cls.name: cls for cls in own}, **declared_environments()}


def use_domains(recipe: Recipe) -> list[str]:
    """Load the domains that a recipe brings along, here and for child processes, and check every name of a domain or
    template in it; returns the domains that it has problems of, those of `curation` first. Raises RatchetError."""
    from ratchet.verifiers.environments.domain import declare

    if recipe.verification.math == "either" and not recipe.training.reward_servers:
        from ratchet.verifiers.math.second_verifier import check_installed

        check_installed()
    for path in recipe.domains:
        cls = DOMAINS.load(path)
        if cls.name in DOMAINS:
            raise RatchetError(f"domains: {path} has the name {cls.name!r} of a shipped domain; give it another.")
    os.environ[OWN_DOMAINS] = ",".join(recipe.domains)
    declare(recipe.generate, taken=[*DOMAINS.shipped, *(DOMAINS.load(path).name for path in recipe.domains)])
    _instances.clear()
    trained = [name for stage in recipe.training.stages for name in stage.domains]
    used = list(dict.fromkeys([*recipe.curation, *trained]))
    named = [*used, *(b.domain for b in recipe.evaluation.benchmarks)]
    templates = {name for domain in named for name in domain_of(domain).templates}
    for name in recipe.model.prompt.templates:
        if name not in templates:
            raise RatchetError(f"model.prompt.{name}: no domain of this recipe has such a template; they have "
                               f"{', '.join(sorted(templates))}.")  # fmt: skip
    for benchmark in recipe.evaluation.benchmarks:
        own = domain_of(benchmark.domain).templates
        if unknown := benchmark.prompt.keys() - own - {"response_prefix"}:
            raise RatchetError(f"benchmark {benchmark.name}: prompt: {', '.join(sorted(unknown))}: the domain "
                               f"{benchmark.domain} has no such template; it has {', '.join(own)}.")  # fmt: skip
    return used
