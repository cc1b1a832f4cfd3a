"""Rewards of responses from a reward model behind an endpoint, for best-of-n.

Each reward is journaled, so that a response is scored once.
"""

import hashlib
import math
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import openai
import pyarrow as pa

from ratchet.evaluation.spec import Plan
from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.openai_endpoint import without_key
from ratchet.infra.inference.openai_stream import shown
from ratchet.infra.journal import Journal, read_lines
from ratchet.infra.recipe.evaluation import RewardModel
from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.prompts import user_message

REWARD = pa.field("reward", pa.float64())
"""Null: the response was truncated, has no text after its thinking, or is too long for the reward model."""
LONGEST_PAUSE_S = 8.0  # of the client, between two attempts
_TOO_LONG = re.compile(r"maximum context length|longer than the maximum", re.IGNORECASE)


class Rewarder:
    """Scores responses. A context manager that owns the journal of rewards.

    A reward model is a sequence classifier with one output behind vLLM's `/classify`. It reads the question and the
    response after its thinking, as a chat of two turns. A reward is its raw output.
    """

    def __init__(self, settings: RewardModel, journal: Path, note: Callable[[str], None]) -> None:
        self._settings, self._note = settings, note
        self._secret = os.environ.get(settings.api_key_env)
        self._journal = Journal(journal, durable=True, alone=True)
        self._known: dict[str, float] = {line["key"]: line["reward"] for _, line in read_lines(journal)}
        self._client = openai.OpenAI(
            api_key=self._secret or "none", timeout=settings.timeout_s,
            max_retries=math.ceil(settings.patience_s / LONGEST_PAUSE_S) + 2,
            base_url=settings.base_url.rstrip("/").removesuffix("/v1"),  # `/classify` is not below /v1
        )  # fmt: skip
        self._too_long = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._journal.close()
        self._client.close()
        if self._too_long:
            self._note(f"{self._too_long} responses are too long for {self._settings.model} and have no reward")

    def with_rewards(self, graded: pa.Table, plan: Plan) -> pa.Table:
        """The rows with the column `REWARD`. Raises RatchetError if the endpoint fails; the rewards so far are kept."""
        names = ("benchmark", "problem_id", "text", "finish_reason")
        rows = list(zip(*(graded[name].to_pylist() for name in names), strict=True))
        asked = {(name, question) for name, question, *_ in rows}
        questions = {
            (name, problem.problem_id): user_message(problem, plan.prompts[name])
            for name in {name for name, _ in asked}
            for problem in plan.problems[name]
            if (name, problem.problem_id) in asked
        }
        pairs = [
            (questions[name, question], _answer(plan.judged_prefixes[name] + text, reason))
            for name, question, text, reason in rows
        ]
        keys = [self._key(*pair) for pair in pairs]
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if pair[1] and key not in self._known}
        with ThreadPoolExecutor(self._settings.concurrency) as threads:
            calls = {threads.submit(self._ask, *pair): key for key, pair in missing.items()}
            try:
                for call in as_completed(calls):
                    self._keep(calls[call], call.result())
            except BaseException:
                threads.shutdown(cancel_futures=True)
                for call in calls:  # those that were in flight
                    if not call.cancelled() and not call.exception() and calls[call] not in self._known:
                        self._keep(calls[call], call.result())
                raise
        return graded.append_column(REWARD, pa.array([self._known.get(key) for key in keys], REWARD.type))

    def _keep(self, key: str, reward: float | None) -> None:
        if reward is None:  # not stored: the server's limit may be raised
            self._too_long += 1
            return
        self._journal.append({"key": key, "model": self._settings.model, "reward": reward})
        self._known[key] = reward

    def _key(self, question: str, answer: str) -> str:
        facts = "\x00".join((self._settings.model, question, answer))
        return hashlib.sha256(facts.encode()).hexdigest()

    def _ask(self, question: str, answer: str) -> float | None:
        body = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
            "use_activation": False,  # a sigmoid would make all high rewards 1.0
        }
        try:
            return _reward(self._client.post("/classify", body=body, cast_to=object))
        except (openai.OpenAIError, ValueError) as error:
            if isinstance(error, openai.BadRequestError) and _TOO_LONG.search(str(error)):
                return None
            cause = without_key(shown(error.__cause__ or error), self._secret)
            raise RatchetError(
                f"evaluation.reward_model: {self._settings.base_url} gave no reward ({cause}). It must be a reward "
                "model behind vLLM's /classify. The rewards so far are kept: run the same command again."
            ) from error


def _answer(response: str, finish_reason: str) -> str:
    """The text after the thinking; empty for a truncated or failed response."""
    return "" if finish_reason in ("length", "error") else (after_thinking(response) or "").strip()


def _reward(reply: Any) -> float:
    """Raises ValueError for a reply without exactly one finite number."""
    try:
        ((reward,),) = (row["probs"] for row in reply["data"])
        if math.isfinite(reward):
            return float(reward)
    except (TypeError, KeyError, ValueError):
        pass
    raise ValueError(f"{str(reply)[:200]} has not exactly one finite number in probs")
