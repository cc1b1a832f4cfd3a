"""Curation plans of the domains: one file per domain, named by its class as `curation`."""

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ratchet.data_curation.rules import Rule
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import Registry

if TYPE_CHECKING:
    from ratchet.data_curation.curation_step import CurationStep
    from ratchet.data_curation.readers.columns import Format, RawRow
    from ratchet.data_curation.readers.raw_files import Row


@dataclass(frozen=True)
class CurationPlan:
    """The formats, rules and steps of a domain, in order."""

    plain: "Callable[[RawRow, Mapping[str, str]], Row]"
    """The reader of a row whose columns the recipe maps."""
    rules: tuple[Rule, ...]
    formats: "tuple[Format, ...]" = ()
    """Published layouts, tried in this order after the shared ones."""
    steps: "tuple[str | CurationStep, ...]" = ("rules", "decontaminate", "deduplicate", "difficulty")
    """The steps after reading, in order: names, or objects (`ratchet.data_curation.steps`). The teacher is asked before
    the first that needs its attempts."""
    ngram: int = 9
    """Tokens per n-gram in decontamination."""
    teacher_steps: InitVar[Any] = None

    def __post_init__(self, teacher_steps: Any) -> None:
        if teacher_steps is not None or "normalize" in self.steps:
            raise RatchetError(
                "CurationPlan: steps lists all steps after reading, without 'normalize' and with those that were under "
                "teacher_steps: steps=('rules', 'decontaminate', 'deduplicate', 'majority_vote', 'length')."
            )

    @property
    def step_names(self) -> tuple[str, ...]:
        return tuple(step if isinstance(step, str) else step.name for step in self.steps)


PLANS: Registry[CurationPlan] = Registry("curation plan", {}, lambda value: isinstance(value, CurationPlan))


def plan_of(domain: str) -> CurationPlan:
    """The curation plan of a domain."""
    return PLANS.get(domain_of(domain).curation)


def domain_in(table: pa.Table) -> str:
    """The domain of a table's rows; math if they have none. Raises RatchetError for several domains."""
    first, *others = table["domain"].unique().to_pylist() or ["math"]
    if others:
        raise RatchetError(f"The table has problems of {first} and {', '.join(others)}: curate one domain at a time.")
    return first
