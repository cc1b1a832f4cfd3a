"""Rewards of responses from a reward model behind an endpoint, for best-of-n.

Each reward is journaled, so that a response is scored once.
"""

import hashlib
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import openai
import pyarrow as pa

from ratchet.evaluation.spec import Plan
from ratchet.infra.errors import RatchetError
from ratchet.infra.journal import Journal, read_lines
from ratchet.infra.recipe.evaluation import RewardModel
from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.prompts import user_message

REWARD = pa.field("reward", pa.float64())
"""Null: the response was truncated, has no text after its thinking, or is too long for the reward model."""
LONGEST_PAUSE_S = 8.0  # of the client, between two attempts


class Rewarder:
    """Scores responses. A context manager that owns the journal of rewards.

    A reward model is a sequence classifier with one output behind vLLM's `/classify`. It reads the question and the
    response after its thinking, as a chat of two turns.
    """

    def __init__(self, settings: RewardModel, journal: Path, note: Callable[[str], None]) -> None:
        self._settings, self._note = settings, note
        self._journal = Journal(journal, durable=True, alone=True)
        self._known: dict[str, float | None] = {line["key"]: line["reward"] for _, line in read_lines(journal)}
        self._client = openai.OpenAI(
            api_key=os.environ.get(settings.api_key_env) or "none", timeout=settings.timeout_s,
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
        questions = {
            (name, problem.problem_id): user_message(problem, plan.prompts[name])
            for name in {name for name, *_ in rows}
            for problem in plan.problems[name]
        }
        pairs = [
            (questions[name, question], _answer(plan.judged_prefixes[name] + text, reason))
            for name, question, text, reason in rows
        ]
        keys = [self._key(*pair) for pair in pairs]
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if pair[1] and key not in self._known}
        with ThreadPoolExecutor(self._settings.concurrency) as threads:
            try:
                for key, reward in zip(missing, threads.map(self._ask, missing.values()), strict=True):
                    self._journal.append({"key": key, "model": self._settings.model, "reward": reward})
                    self._known[key] = reward
                    self._too_long += reward is None
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        return graded.append_column(REWARD, pa.array([self._known.get(key) for key in keys], REWARD.type))

    def _key(self, question: str, answer: str) -> str:
        facts = "\x00".join((self._settings.model, question, answer))
        return hashlib.sha256(facts.encode()).hexdigest()

    def _ask(self, pair: tuple[str, str]) -> float | None:
        turns = [{"role": role, "content": text} for role, text in zip(("user", "assistant"), pair, strict=True)]
        body = {"model": self._settings.model, "messages": turns}
        try:
            return _reward(self._client.post("/classify", body=body, cast_to=object))
        except (openai.OpenAIError, ValueError) as error:
            if isinstance(error, openai.BadRequestError) and "length" in str(error):
                return None
            cause = error.__cause__ or error
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
