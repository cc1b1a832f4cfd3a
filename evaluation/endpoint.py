"""Sampling through an OpenAI-compatible endpoint: each answer is kept as it arrives, and failures cost time only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.evaluation.generation_store import Key
from ratchet.evaluation.sampling import Generations, generation_table, not_stored, stored_row
from ratchet.evaluation.spec import Asked, Plan
from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.openai_engine import EndpointUnreachable, OpenAIEngine
from ratchet.infra.inference.protocol import Engine, Request

Name = tuple[str, Key]  # of a request: its benchmark and its name in the store
Missing = dict[Name, tuple[int, Asked]]  # with the position of its batch


class EndpointGenerations(Generations):
    """The responses of a model behind an endpoint.

    A request that the endpoint refuses (a content filter, a prompt that it finds too long), or that fails while others
    are answered, becomes a row with finish reason `error`, which is not kept: the next evaluation asks again.
    `waiting` is called with a sentence for the user while the endpoint does not answer.
    """

    def __init__(self, plan: Plan, waiting: Callable[[str], None], engine: Engine | None = None) -> None:
        super().__init__(plan)
        self.waiting, self._engine = waiting, engine
        self._given_up: dict[Name, dict[str, Any]] = {}

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
        engine = self._engine or _engine(self.plan, self.waiting)
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
        """Ask for what is missing; yields benchmark and batch of each that is answered or given up."""
        try:
            for completion in engine.generate(self._requests(missing), self.plan.sampling):
                position, asked = missing[completion.key]
                row = stored_row(asked, completion)
                if completion.finish_reason in ("error", "refused"):
                    self._given_up[completion.key] = {**row, "text": completion.error or "", "finish_reason": "error"}
                else:
                    self.plan.stores[completion.key[0]].append(row)
                yield completion.key[0], position
        except EndpointUnreachable as error:
            raise RatchetError(f"{error} What was answered is kept: run the same command again.") from error

    def _requests(self, missing: Missing) -> Iterator[Request]:
        for key, (_, asked) in missing.items():
            yield Request(key=key, seed=asked.seed, messages=({"role": "user", "content": asked.message},))


def _engine(plan: Plan, waiting: Callable[[str], None]) -> OpenAIEngine:
    settings = plan.spec.model.endpoint
    assert settings is not None
    key = os.environ.get(settings.api_key_env)
    return OpenAIEngine(
        settings.model, settings.base_url, key, settings.concurrency, settings.timeout_s,
        patience_s=settings.patience_s, tell=waiting,
    )  # fmt: skip
