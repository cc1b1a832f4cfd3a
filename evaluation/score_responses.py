"""Score existing responses from plain Python."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pandas as pd
import pyarrow as pa

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.protocol import says_nothing
from ratchet.evaluation.grading import answer_classes
from ratchet.evaluation.scores import score
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.serving.local_pool import open_pool


def score_responses(
    problems: pa.Table, responses: Mapping[str, Sequence[str]], pass_at: Sequence[int] = (1,),
    reward_servers: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Judge finished responses, by problem_id, and score them as in an evaluation: `pass_at` with errors and 95 %
    intervals across questions, `majority_at`, outcomes, solve rates (`evaluation.scores.score`). Numbers of tokens are
    unknown. Raises RatchetError for a response to no problem, and without responses."""
    rows = {problem.problem_id: problem for problem in from_table(problems)}
    if strangers := [name for name in responses if name not in rows]:
        raise RatchetError(f"responses to {strangers[0]!r}, which is no problem_id of the {len(rows)} problems")
    if not any(responses.values()):
        raise RatchetError("there are no responses")
    graded = []
    with open_pool(reward_servers) as pool:
        verdicts = iter(pool.verify([(rows[name], text) for name, texts in responses.items() for text in texts]))
    for name, texts in responses.items():
        mine = list(islice(verdicts, len(texts)))
        for number, (text, verdict, answer_class) in enumerate(zip(texts, mine, answer_classes(mine), strict=True)):
            graded.append(
                {
                    "problem_id": name, "sample": number, "finish_reason": "stop", "tokens": float("nan"),
                    "outcome": verdict.outcome.value, "decided_by": verdict.decided_by, "fraction": verdict.fraction,
                    "empty": says_nothing(text, "stop"), "answer_class": answer_class,
                }
            )  # fmt: skip
    vote = all(domain_of(problem.domain).answers_vote for problem in rows.values())
    return score(pd.DataFrame(graded), list(rows.values()), pass_at, vote)
