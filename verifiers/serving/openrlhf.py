"""Requests of OpenRLHF's `--reward.remote_url`, for a reward server's `/v1/openrlhf`.

`{"query": [...], "prompts": [...], "labels": [...]}`, where a query is prompt and response as one text with special
tokens and a label the row's `ratchet_problem`, is answered with `{"rewards": [...], "scores": [...], "extra_logs":
{}}`.
"""

import json
from collections.abc import Sequence
from typing import Any

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.reward import graded_domains
from ratchet.verifiers.serving.rows import after_prompt, paired
from ratchet.verifiers.submission import JudgeSettings, Submission


def decode_request(body: bytes) -> list[tuple[int, Submission]]:
    """Read a request. Raises ValueError that says what is wrong."""
    try:
        message = json.loads(body)
        pairs = paired(message["labels"], after_prompt(message["query"], message["prompts"]))
        settings = JudgeSettings(fraction=bool(graded_domains()))
    except (KeyError, TypeError, AttributeError, RecursionError, RatchetError) as error:
        raise ValueError(
            str(error) if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
        ) from error
    return [(number, Submission(*pair, settings=settings)) for number, pair in enumerate(pairs)]


def reply(rewards: Sequence[float]) -> dict[str, Any]:
    return {"rewards": [*rewards], "scores": [*rewards], "extra_logs": {}}
