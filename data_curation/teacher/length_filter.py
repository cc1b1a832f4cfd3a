"""Length filter: problems that the teacher solves in few tokens teach a reasoning model little."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from ratchet.data_curation.base.protocol import derive_seed
from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext
from ratchet.data_curation.settings.curation import LengthFilter
from ratchet.data_curation.split import Rejection, Split, partition, step_facts
from ratchet.data_curation.teacher import majority_vote
from ratchet.verifiers.errors import RatchetError

STEP = "length"
RULES = ("too_short", "downsampled")


@dataclass(frozen=True)
class FilterByLength(CurationStep):
    """Drop problems that the teacher solves in few tokens, and downsample those a little longer."""

    settings: LengthFilter | None = None
    name: ClassVar[str] = STEP
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("teacher",)

    def parameters(self, context: StepContext) -> dict[str, Any]:
        return {"length": self.settings or context.curation.length, "seed": context.seed}

    def code(self, context: StepContext) -> Sequence[str]:
        return ()

    def check(self, context: StepContext) -> None:
        shortest, longest = self.parameters(context)["length"].drop_below_tokens, context.curation.teacher.max_tokens
        if shortest > longest:
            raise RatchetError(
                f"curation.{context.domain}: length.drop_below_tokens ({shortest}) is above teacher.max_tokens "
                f"({longest}): every problem would be dropped. Lower the first or raise the second."
            )

    def run(self, rows: Rows, context: StepContext) -> Iterable[Split]:
        yield filter_by_length(rows.table(), self.parameters(context)["length"], context.seed)


def filter_by_length(problems: pa.Table, limits: LengthFilter, seed: int) -> Split:
    """Drop rows whose `teacher_tokens`, the teacher's mean response length, is below the first limit; downsample those
    below the second. Downsampling depends on (seed, problem_id) only. Raises RatchetError for a row without
    `teacher_tokens`."""
    verdicts = []
    columns = (problems[name].to_pylist() for name in ("problem_id", "teacher_tokens", "metadata"))
    for problem_id, tokens, metadata in zip(*columns, strict=True):
        if tokens is None:
            raise RatchetError(
                f"the step {STEP}: problem {problem_id} has no teacher_tokens. List majority_vote or difficulty, which "
                "count them, before it."
            )
        counted_by = step_facts(metadata, majority_vote.STEP).get("counted_by")
        evidence = {"teacher_tokens": round(tokens, 1), "counted_by": counted_by}
        draw = derive_seed(seed, "length", problem_id) / 2**63
        if tokens < limits.drop_below_tokens:
            verdicts.append(Rejection("too_short", evidence | {"limit": limits.drop_below_tokens}))
        elif tokens < limits.downsample_below_tokens and draw >= limits.downsample_keep:
            limit = {"limit": limits.downsample_below_tokens, "keep": limits.downsample_keep, "draw": round(draw, 4)}
            verdicts.append(Rejection("downsampled", evidence | limit))
        else:
            verdicts.append(None)
    return partition(STEP, RULES, problems, verdicts)
