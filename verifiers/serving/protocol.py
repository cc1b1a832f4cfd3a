"""Messages between a pool and its reward servers: JSON, described in docs/howto/reward_servers.md.

Python's own `json`, because it escapes text to ASCII: a lone surrogate in a response survives.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import from_judged_fields, judged_fields
from ratchet.verifiers.submission import JudgeSettings, Submission

TOKEN_VARIABLE = "RATCHET_JUDGE_TOKEN"
WORKERS_HEADER = "X-Ratchet-Workers"
HEARTBEAT_S = 0.5
"""Seconds between empty lines that the server sends while nothing completes: a client can tell slow from dead, and the
server notices a client that has left."""


def encode_batch(submissions: Iterable[tuple[Any, Submission]]) -> bytes:
    """Encode (ticket, submission) pairs; a ticket is any JSON value. Each problem is sent once."""
    problems: dict[int, int] = {}
    sent, rows = [], []
    for ticket, submission in submissions:
        problem = submission.problem
        if id(problem) not in problems:
            problems[id(problem)] = len(sent)
            sent.append(judged_fields(domain_of(problem.domain).for_judging(problem)))
        text = {"program" if submission.is_program else "response": submission.text}
        settings = {name: getattr(submission.settings, name) for name in ("fraction", "either", "total_s", "stated")}
        row = {"ticket": ticket, "problem": problems[id(problem)], "finished": submission.finished}
        rows.append(row | text | settings)
    return json.dumps({"problems": sent, "requests": rows}).encode()


def decode_batch(body: bytes) -> list[tuple[Any, Submission]]:
    """Decode a batch. Raises ValueError that says what is wrong and where. Does not check a problem's content."""
    where = "the body"
    try:
        batch = json.loads(body)
        problems, submissions = [], []
        for number, row in enumerate(batch["problems"]):
            where = f"problem {number}"
            problems.append(from_judged_fields(row))
        for number, row in enumerate(batch["requests"]):
            where = f"request {number}"
            is_program = "program" in row
            text = row["program"] if is_program else row["response"]
            if not isinstance(row["problem"], int) or not 0 <= row["problem"] < len(problems):
                raise ValueError("its problem must be a position in problems")
            total_s = row.get("total_s")
            if total_s is not None and not 0 < total_s < math.inf:
                raise ValueError("its total_s must be a positive number of seconds, or null")
            fraction, either, stated = (bool(row.get(name)) for name in ("fraction", "either", "stated"))
            settings = JudgeSettings(fraction, either, total_s, stated=stated)
            finished = bool(row.get("finished", True))
            submission = Submission(problems[row["problem"]], text, finished, is_program, settings)
            submissions.append((row["ticket"], submission))
        return submissions
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
    except KeyError as error:
        raise ValueError(f"{where} has no {error}") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{where} is not as in docs/howto/reward_servers.md: {error}") from error


def encode_verdict(ticket: Any, verdict: Verdict) -> bytes:
    """Encode the verdict on a ticket as a line."""
    return json.dumps({"ticket": ticket, **asdict(verdict)}).encode() + b"\n"


def decode_verdict(line: str) -> tuple[Any, Verdict]:
    """Decode a line into (ticket, verdict). Raises ValueError, TypeError or KeyError for a line that `encode_verdict`
    did not write."""
    row = json.loads(line)
    return row.pop("ticket"), Verdict(**{**row, "outcome": Outcome(row["outcome"])})
