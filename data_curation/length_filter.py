"""Length filter: what the teacher solves in few tokens teaches a reasoning model little."""

from __future__ import annotations

import pyarrow as pa

from data_curation.split import Rejection, Split, partition
from infra.inference.protocol import derive_seed
from infra.recipe.model import LengthFilter

STEP = "length"
RULES = ("too_short", "downsampled")


def filter_by_length(problems: pa.Table, limits: LengthFilter, seed: int) -> Split:
    """By `teacher_tokens`, the teacher's mean response length: drop below the first limit, thin out below the second.

    Which rows of the middle band stay follows from (seed, problem_id) alone, so one row more or less in the input
    changes nothing for the others. Raises ValueError when a row has no `teacher_tokens`: the vote comes first.
    """
    verdicts = []
    for problem_id, tokens in zip(
        problems.column("problem_id").to_pylist(), problems.column("teacher_tokens").to_pylist(), strict=True
    ):
        if tokens is None:
            raise ValueError(f"problem {problem_id} has no teacher_tokens: run the majority vote first")
        draw = derive_seed(seed, "length", problem_id) / 2**63
        if tokens < limits.drop_below_tokens:
            verdicts.append(Rejection("too_short", {"teacher_tokens": tokens, "limit": limits.drop_below_tokens}))
        elif tokens < limits.downsample_below_tokens and draw >= limits.downsample_keep:
            limit = limits.downsample_below_tokens
            verdicts.append(
                Rejection("downsampled", {"teacher_tokens": tokens, "limit": limit, "draw": round(draw, 4)})
            )
        else:
            verdicts.append(None)
    return partition(STEP, RULES, problems, verdicts)
