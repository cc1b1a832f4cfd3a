"""What goes over the wire between a pool and its reward servers: JSON, described in docs/reward_servers.md.

Python's own `json` on purpose: text is escaped to ASCII, so that a lone surrogate in a response survives the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from infra.problems import Problem
from verifiers.outcome import Outcome, Verdict

TOKEN_VARIABLE = "RATCHET_JUDGE_TOKEN"
WORKERS_HEADER = "X-Ratchet-Workers"
HEARTBEAT_S = 2.0
"""The server sends an empty line this often while nothing completes, so that a client can tell slow from dead."""
JUDGED_FIELDS = (
    "problem_id",
    "domain",
    "answer",
    "tests",
    "entry_point",
    "time_limit_s",
    "memory_limit_mb",
    "metadata",
)
"""Of a problem, what a verdict depends on; the rest is not sent."""


@dataclass(frozen=True)
class JudgeRequest:
    """One response to judge, or with `is_program` one program as it is. `ticket` is any JSON value."""

    ticket: Any
    problem: Problem
    text: str
    finished: bool
    is_program: bool


def encode_batch(requests: Iterable[JudgeRequest], fraction: bool) -> bytes:
    """Each problem is sent once, however many responses to it there are."""
    problems: dict[int, int] = {}
    sent, rows = [], []
    for request in requests:
        if id(request.problem) not in problems:
            problems[id(request.problem)] = len(sent)
            sent.append({name: getattr(request.problem, name) for name in JUDGED_FIELDS})
        row = {"ticket": request.ticket, "problem": problems[id(request.problem)]}
        text = {"program": request.text} if request.is_program else {"response": request.text}
        rows.append(row | text | {"finished": request.finished})
    return json.dumps({"fraction": fraction, "problems": sent, "requests": rows}).encode()


def decode_batch(body: bytes) -> tuple[list[JudgeRequest], bool]:
    """(requests, fraction). Raises ValueError with what is wrong and where; what a problem holds is not checked."""
    where = "the body"
    try:
        batch = json.loads(body)
        problems = []
        for number, row in enumerate(batch["problems"]):
            where = f"problem {number}"
            if not isinstance(row.get("problem_id"), str):
                raise ValueError("problem_id must be text")
            problems.append(Problem(prompt="", **{name: row.get(name) for name in JUDGED_FIELDS}))
        requests = []
        for number, row in enumerate(batch["requests"]):
            where = f"request {number}"
            is_program = "program" in row
            text = row["program" if is_program else "response"]
            if not isinstance(row["problem"], int) or not 0 <= row["problem"] < len(problems):
                raise ValueError("its problem must be a position in problems")
            finished = bool(row.get("finished", True))
            requests.append(JudgeRequest(row["ticket"], problems[row["problem"]], text, finished, is_program))
        return requests, bool(batch.get("fraction", False))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{where}: {type(error).__name__}: {error}") from error


def encode_verdict(ticket: Any, verdict: Verdict) -> bytes:
    row = {
        "ticket": ticket, "outcome": verdict.outcome.value, "fraction": verdict.fraction,
        "decided_by": verdict.decided_by, "detail": verdict.detail, "extracted": verdict.extracted,
    }  # fmt: skip
    return json.dumps(row).encode() + b"\n"


def decode_verdict(line: str) -> tuple[Any, Verdict]:
    """(ticket, verdict). Raises ValueError, TypeError or KeyError when the line is not one of `encode_verdict`."""
    row = json.loads(line)
    return row.pop("ticket"), Verdict(**{**row, "outcome": Outcome(row["outcome"])})
