"""Apply the rules of a domain to a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext, curation_code
from ratchet.data_curation.domains import domain_in, plan_of
from ratchet.data_curation.rules import OTHER_RULES, Rule
from ratchet.data_curation.settings.curation import Rules
from ratchet.data_curation.split import Rejection, Split, partition
from ratchet.data_curation.tokens import byte_span
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

STEP = "rules"


@dataclass(frozen=True)
class FilterByRules(CurationStep):
    """Drop problems that no answer can be verified for, or that are incomplete, by the domain's rules."""

    settings: Rules | None = None
    name: ClassVar[str] = STEP
    version: ClassVar[int] = 21

    def parameters(self, context: StepContext) -> Rules:
        return self.settings or context.curation.rules

    def code(self, context: StepContext) -> Sequence[str]:
        return [*curation_code(context.domain), *map(OTHER_RULES.path, self.parameters(context).also)]

    def check(self, context: StepContext) -> None:
        rules_of(context.domain, self.parameters(context))

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        judge = partial(filter_by_rules, settings=self.parameters(context), domain=context.domain)
        return context.each(judge, rows.batches(), len(rows))


def rules_of(domain: str, settings: Rules) -> list[Rule]:
    """The domain's rules that are not switched off, then those of `also`. Raises RatchetError for an unknown name."""
    rules = [*plan_of(domain).rules, *map(OTHER_RULES.get, settings.also)]
    names = [rule.__name__ for rule in rules]
    if unknown := [name for name in settings.off if name not in names]:
        raise RatchetError(f"rules.off: no rule of this domain is called {unknown[0]!r}; there are {', '.join(names)}.")
    return [rule for rule in rules if rule.__name__ not in settings.off]


def filter_by_rules(table: pa.Table, settings: Rules = Rules(), domain: str | None = None) -> Split:
    """Reject each row by the first of the domain's rules that applies. Raises the errors of `rules_of`."""
    rules = rules_of(domain or domain_in(table), settings)

    def judge(problem: Problem) -> Rejection | None:
        for rule in rules:
            if evidence := rule(problem, settings):
                if "span" in evidence:  # rules count characters, evidence bytes
                    evidence |= {"span": byte_span(problem.prompt, *evidence["span"])}
                return Rejection(rule.__name__, evidence)
        return None

    return partition(STEP, [rule.__name__ for rule in rules], table, list(map(judge, from_table(table))))
