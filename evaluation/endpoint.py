"""Sample through an OpenAI-compatible endpoint: each answer is stored as it arrives."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from ratchet.data_curation.base.openai_engine import EndpointUnreachable, OpenAIEngine
from ratchet.data_curation.base.protocol import Engine, Request
from ratchet.evaluation.sampling import Generations, Stored, missing_of, stored_row
from ratchet.evaluation.spec import EvaluationPlan, RequestBatch
from ratchet.verifiers.errors import RatchetError

PATIENCE_S = 86_400.0
"""Seconds to wait for an endpoint that gives no answer at all; finished answers are kept."""


class EndpointGenerations(Generations):
    """The responses of a model behind an endpoint.

    A request that the endpoint refuses (content filter, prompt too long), or that fails while others succeed, becomes a
    row with finish reason `error`. It is not stored: the next evaluation repeats it.
    """

    def __init__(
        self, plan: EvaluationPlan, waiting: Callable[[str], None], engine: Engine | None = None,
        report: Callable[[str], None] = lambda benchmark: None,
    ) -> None:  # fmt: skip
        super().__init__(plan, report, waiting)
        self._engine = engine

    def _sample(self, missing: Sequence[RequestBatch], stored: Stored) -> Iterator[pa.Table]:
        todo = {(batch.position, asked.key): asked for batch in missing for asked in missing_of(batch, stored)}
        formats = {batch.position: self.plan.prompts[batch.benchmark] for batch in missing}
        requests = (
            Request(
                key, asked.seed, messages=tuple((prompt := formats[key[0]]).turns(asked.message)),
                chat_template_kwargs=prompt.chat_template_kwargs,
            )
            for key, asked in todo.items()
        )  # fmt: skip
        unanswered = Counter(position for position, _ in todo)
        self.done = self.total - len(todo)
        settings = self.plan.spec.model.endpoint
        assert settings is not None
        engine = self._engine or OpenAIEngine(
            settings.model, settings.base_url, os.environ.get(settings.api_key_env), settings.concurrency,
            patience_s=PATIENCE_S, tell=self.waiting,
        )  # fmt: skip
        try:
            for completion in engine.generate(requests, self.plan.sampling):
                position, key = completion.key
                batch, row = self.plan.batches[position], stored_row(todo[completion.key], completion)
                store = self.plan.stores[batch.benchmark]
                if completion.finish_reason in ("error", "refused"):
                    row |= {"text": completion.error or "", "finish_reason": "error"}
                    self.given_up.setdefault(batch.benchmark, {})[key] = row
                else:
                    store.append(row)
                unanswered[position] -= 1
                self.done += 1
                if not unanswered[position]:
                    stored[batch.benchmark] |= store.seal()
                    yield self._table(batch, stored)
        except EndpointUnreachable as error:
            raise RatchetError(f"{error} Finished answers are kept: run the same command again.") from error
        finally:
            engine.close()
