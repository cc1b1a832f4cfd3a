"""Every question of a benchmark: solve counts at each checkpoint, and what changed."""

import numpy as np
import pandas as pd

from ratchet.evaluation.boundaries import Boundary
from ratchet.evaluation.comparison import SIGNIFICANT

SHOWN = 240  # characters of a question
CHANGES = ("newly solved", "newly lost", "solved before and after", "never solved")


def question_table(boundary: Boundary) -> pd.DataFrame:
    """One row per question: `change` from the first checkpoint to the last, whether that is `significant` for the
    question alone, and `right, LABEL` of `graded, LABEL` responses at each checkpoint."""
    whole, *parts = boundary.tasks
    task_of = {question: part.name for part in parts for question in part.counts[0]}
    found, asked = whole.changes, boundary.questions.reindex(whole.changes.index)
    change = np.select(
        [found.newly_solved, found.newly_lost, found.passed + found.passed_after > 0], CHANGES[:3], CHANGES[3]
    )
    rows = pd.DataFrame(
        {
            "benchmark": whole.benchmark, "domain": whole.domain,
            "task": [task_of.get(str(question), whole.name) for question in found.index],
            "level": asked.difficulty, "change": change, "significant": found.q_value < SIGNIFICANT,
            "source": asked.source, "source_id": asked.source_id, "question": asked.prompt.str.slice(0, SHOWN),
        }
    )  # fmt: skip
    for label, counts in zip(boundary.labels, whole.counts, strict=True):
        rows[f"right, {label}"] = [counts[str(question)][0] for question in found.index]
        rows[f"graded, {label}"] = [counts[str(question)][1] for question in found.index]
    return rows.rename_axis("problem_id").reset_index()
