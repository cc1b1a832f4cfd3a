"""The data card of a curated set, in the form that dataset hubs read: where it comes from, what was done, what is left.

Everything in it is taken from the steps' manifests and tables; nothing is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.infra.pages import render

SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))

Manifest = Mapping[str, Any]


def card(
    domain: str, funnel: pa.Table, kept: pa.Table, rejected: pa.Table, steps: Sequence[Manifest],
    not_done: Mapping[str, str],
) -> str:  # fmt: skip
    """The card in Markdown. `steps` are the manifests of the chain, in order; `not_done` says of a step why it was not
    taken."""
    examples = rejected.to_pandas().drop_duplicates(["step", "rule"])
    examples = examples.astype(object).where(examples.notna(), None)
    files = zip(file_names(steps[0]), (facts["key"] for facts in steps[0]["inputs"]), strict=True) if steps else ()
    return render(
        Path(__file__).parent / "card.md",
        domain=domain, not_done=not_done, steps=steps, leaves=lambda parameters: ", ".join(_leaves(parameters)),
        size=next((name for limit, name in SIZES if len(kept) < limit), "n>10M"),
        rows_in=funnel.column("rows_in")[0].as_py() if len(funnel) else len(kept),
        kept=len(kept), files=list(files), funnel=funnel.to_pylist(), examples=examples.to_dict("records"),
        columns=[(f.name, f.type, 1 - kept[f.name].null_count / max(len(kept), 1)) for f in kept.schema],
    ) + "\n"  # fmt: skip


def file_names(first: Manifest) -> list[str]:
    """What the first step calls its files; files of one name, by as much of their paths as tells them apart."""
    return first["parameters"].get("sources") or [facts["name"] for facts in first["inputs"]]


def _leaves(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name} {value}"
