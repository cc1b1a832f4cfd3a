"""How the problems of each domain are curated: one file per domain, named by its class as `curation`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ratchet.data_curation.rules import Rule
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import Registry

if TYPE_CHECKING:
    from ratchet.data_curation.readers.columns import Format, RawRow
    from ratchet.data_curation.readers.raw_files import Row


@dataclass(frozen=True)
class CurationPlan:
    """The formats, rules and steps of a domain, in order."""

    plain: "Callable[[RawRow, Mapping[str, str]], Row]"
    """Reads a row whose columns the recipe maps."""
    rules: tuple[Rule, ...]
    formats: "tuple[Format, ...]" = ()
    """Published layouts, tried in this order after the shared ones."""
    steps: tuple[str, ...] = ("normalise", "rules", "decontaminate", "deduplicate")
    teacher_steps: tuple[str, ...] = ("difficulty",)
    """Steps after the teacher's attempts."""
    ngram: int = 9
    """Tokens per n-gram in decontamination."""


PLANS: Registry[CurationPlan] = Registry("curation plan", {}, lambda value: isinstance(value, CurationPlan))


def plan_of(domain: str) -> CurationPlan:
    return PLANS.get(domain_of(domain).curation)


def domain_in(table: pa.Table) -> str:
    """The domain of a table's rows; math if it has none. Raises RatchetError for several domains."""
    first, *others = table["domain"].unique().to_pylist() or ["math"]
    if others:
        raise RatchetError(f"The table has problems of {first} and {', '.join(others)}: curate one domain at a time.")
    return first
