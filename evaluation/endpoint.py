"""Sampling through an OpenAI-compatible endpoint: each answer is kept as it arrives, and failures cost time only."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from evaluation.generation_store import Key
from evaluation.sampling import generation_table, not_stored, stored_row
from evaluation.spec import Asked, Plan
from infra.errors import RatchetError
from infra.inference.openai_engine import EndpointUnreachable, OpenAIEngine
from infra.inference.protocol import Completion, Engine, Request, Sampling
from infra.recipe.model import Endpoint

Name = tuple[str, Key]  # of a request: its benchmark and its name in the store
Missing = dict[Name, tuple[int, Asked]]  # with the position of its batch

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0
TRIES = 3
"""Of one request that fails while others are answered, each try with the engine's own repeats."""


class EndpointGenerations:
    """The responses of a model behind an endpoint. Holds the stores' locks between entering and leaving.

    A request that the endpoint refuses for good (a content filter, a prompt that it finds too long) becomes a row
    with finish reason `error`, which is not kept: the next evaluation asks again. `waiting` is called with a sentence
    for the user while the endpoint does not answer.
    """

    def __init__(
        self, plan: Plan, waiting: Callable[[str], None], engine: Engine | None = None, pause_s: float = FIRST_PAUSE_S
    ) -> None:
        self.plan, self.waiting, self.pause_s = plan, waiting, pause_s
        self.total = sum(len(batch.requests) for batch in plan.batches)
        self._engine = engine
        self._given_up: dict[Name, dict[str, Any]] = {}
        self._locks = ExitStack()

    def __enter__(self) -> EndpointGenerations:
        for _, store in sorted(self.plan.stores.items()):
            self._locks.enter_context(store.locked())
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()

    def stream(self) -> Iterator[pa.Table]:
        """Batches as their last answer arrives, those that were stored first."""
        stored = {name: store.stored() for name, store in self.plan.stores.items()}
        open_batches: dict[int, int] = {}  # by position, answers that are still missing
        missing: Missing = {}
        for batch in self.plan.batches:
            todo = not_stored(batch, stored[batch.benchmark])
            if todo:
                open_batches[batch.position] = len(todo)
                missing |= {(batch.benchmark, asked.key): (batch.position, asked) for asked in todo}
            else:
                yield self._table(batch.position, stored[batch.benchmark])
        if not missing:
            return
        engine = self._engine or _engine(self.plan)
        try:
            for benchmark, position in self._answers(engine, missing):
                open_batches[position] -= 1
                if not open_batches[position]:
                    stored[benchmark] |= self.plan.stores[benchmark].seal()
                    yield self._table(position, stored[benchmark])
        finally:
            engine.close()

    def in_order(self) -> Iterator[pa.Table]:
        """Every batch again, in the plan's order."""
        stored = {name: store.stored() for name, store in self.plan.stores.items()}
        for batch in self.plan.batches:
            yield self._table(batch.position, stored[batch.benchmark])

    def _table(self, position: int, stored: Mapping[Key, Path]) -> pa.Table:
        batch = self.plan.batches[position]
        known = [asked.key for asked in batch.requests if asked.key in stored]
        rows = dict(zip(known, self.plan.stores[batch.benchmark].read(known, stored), strict=True))
        rows |= {key: row for (name, key), row in self._given_up.items() if name == batch.benchmark}
        return generation_table(batch.benchmark, [rows[asked.key] for asked in batch.requests])

    def _answers(self, engine: Engine, missing: Missing) -> Iterator[tuple[str, int]]:
        """Ask until every request is answered or given up; yields benchmark and batch of each."""
        failures: Counter[Name] = Counter()
        pause, last_answer = self.pause_s, time.monotonic()
        while missing:
            failed: dict[Name, Completion] = {}
            answered, reason = 0, ""
            try:
                for completion in engine.generate(self._requests(missing), self.plan.sampling):
                    name = completion.key
                    if completion.finish_reason in ("error", "refused"):
                        failed[name], reason = completion, completion.error or "it gives no reason"
                        continue
                    position, asked = missing.pop(name)
                    self.plan.stores[name[0]].append(stored_row(asked, completion))
                    answered, pause, last_answer = answered + 1, self.pause_s, time.monotonic()
                    yield name[0], position
            except EndpointUnreachable as error:
                reason = str(error)
            # A request is at fault only where the endpoint works: while it is down, no try counts.
            failures.update(list(failed) if failed and (answered or self._works(engine)) else ())
            for name, completion in failed.items():
                if completion.finish_reason == "refused" or failures[name] >= TRIES:
                    position, asked = missing.pop(name)
                    self._given_up[name] = stored_row(asked, completion) | {
                        "text": completion.error or "", "finish_reason": "error"
                    }  # fmt: skip
                    yield name[0], position
            if missing:
                self._wait(reason, last_answer, pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _works(self, engine: Engine) -> bool:
        """Does the endpoint answer anything at all?"""
        messages = ({"role": "user", "content": "Say yes."},)
        try:
            probe = list(engine.generate([Request("probe", 0, messages=messages)], Sampling(max_tokens=1)))
        except EndpointUnreachable:
            return False
        return probe[0].finish_reason not in ("error", "refused")

    def _requests(self, missing: Missing) -> Iterator[Request]:
        for key, (_, asked) in list(missing.items()):
            yield Request(key=key, seed=asked.seed, messages=({"role": "user", "content": asked.message},))

    def _wait(self, reason: str, last_answer: float, pause: float) -> None:
        silent = time.monotonic() - last_answer
        if silent > _settings(self.plan).patience_s:
            raise RatchetError(
                f"the endpoint gave no answer for {silent:.0f} s (evaluation.endpoint.patience_s): {reason}. What was "
                "answered is kept; run the same command again when it works."
            )
        self.waiting(f"the endpoint fails ({reason}); asking again in {pause:.0f} s")
        time.sleep(pause)


def _settings(plan: Plan) -> Endpoint:
    settings = plan.spec.model.endpoint
    assert settings is not None
    return settings


def _engine(plan: Plan) -> OpenAIEngine:
    settings = _settings(plan)
    key = os.environ.get(settings.api_key_env)
    return OpenAIEngine(settings.model, settings.base_url, key, settings.concurrency, settings.timeout_s)
