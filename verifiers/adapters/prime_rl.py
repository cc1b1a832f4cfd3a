"""prime-rl and the Environments Hub: tasksets for version 1 of the library `verifiers`, exported by the modules
of the distribution `ratchet-environments`."""

import asyncio
import functools
import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ratchet.verifiers.adapters.rewards import rewards
from ratchet.verifiers.environments.library import check_library
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.serving.rows import COLUMN, decode

_waiting = ThreadPoolExecutor(256, "ratchet")
"""Threads that wait for a verdict, as many as rollouts that end together; asyncio's own are few."""
_FILES = {".parquet": "parquet", ".json": "json", ".jsonl": "json"}


@functools.cache
def taskset(domain: str = "") -> type:
    """The taskset of a domain's rows, or of all rows. Raises RatchetError if the library is not installed."""
    check_library()
    library = importlib.import_module("verifiers.v1")  # no import statement: a type checker would find our folder

    class Row(library.TaskData):
        ratchet_problem: str

    class Judge(library.TaskConfig):
        """Options of `Rewards`; the environment's where they are None."""

        servers: str | None = None
        graded: str | None = None
        workers: int | None = None
        total_s: float | None = None
        either: bool = False

    class RatchetTask(library.Task[Row, library.State, Judge]):
        @library.reward
        async def ratchet(self, trace: Any) -> float:
            """The reward: 1 for a passed response and else 0, or the verdict's fraction in graded domains; a truncated
            response is wrong. Raises RatchetError where the judge failed: the trace then has an error and no reward."""
            reward, verdict = 0.0, Verdict(Outcome.FAILED, decided_by="truncated")
            if not trace.is_truncated:
                reward, verdict = await asyncio.get_running_loop().run_in_executor(_waiting, self._judged, trace)
            trace.info["ratchet"] = {"outcome": verdict.outcome.value, "decided_by": verdict.decided_by}
            trace.record_metrics({
                "answered": verdict.outcome is not Outcome.UNPARSEABLE and not trace.is_truncated,
                "passed": verdict.passed, "timed_out": verdict.outcome is Outcome.TIMEOUT,
                "truncated": trace.is_truncated,
            })  # fmt: skip
            return reward

        def _judged(self, trace: Any) -> tuple[float, Verdict]:
            judge = rewards(**self.config.model_dump(include=set(Judge.__annotations__)))
            [(reward, verdict)] = judge.with_verdicts([self.data.ratchet_problem], [_response(trace)])
            if reward is None:
                raise RatchetError(f"not judged, for a fault of the judge, which is no reward: {verdict.detail}")
            return reward, verdict

    class Data(library.TasksetConfig):
        data: str = ""
        """A Parquet or JSON file, a directory, or a data set of the Hugging Face Hub."""
        split: str = "train"
        """The split of a directory or a data set of the Hub."""
        task: Judge = Judge()

    class Ratchet(library.Taskset[RatchetTask, Data]):
        def load(self) -> Iterator[RatchetTask]:
            """Load the rows. Raises RatchetError that names the first row that cannot be judged, or if no row is of the
            domain."""
            count = 0
            for number, row in enumerate(_rows(self.config.data, self.config.split)):
                try:
                    problem, _ = decode(row[COLUMN])
                except RatchetError as error:
                    raise RatchetError(f"Row {number} of {self.config.data} cannot be judged: {error}") from error
                if domain in ("", problem.domain):
                    count += 1
                    prompt = _prompt(row["prompt"])
                    data = Row(idx=number, name=row.get("problem_id"), prompt=prompt, ratchet_problem=row[COLUMN])
                    yield RatchetTask(data, self.config.task)
            if domain and not count:
                raise RatchetError(f"{self.config.data} has no row of the domain {domain}: name another environment.")

    return Ratchet


def _response(trace: Any) -> str:
    """The last response. Where the server took its thinking out, that is put back, since the row may have the prompt's
    end that began it."""
    messages = trace.assistant_messages
    if not messages:
        return ""
    thinking, text = messages[-1].reasoning_content, messages[-1].content or ""
    return f"{thinking}</think>{text}" if thinking else text


def _rows(data: str, split: str) -> Iterator[dict[str, Any]]:
    if not data:
        raise RatchetError(
            "The environment has no problems: name a file of `ratchet export problems --format prime-rl`, or a data "
            "set of the Hugging Face Hub (--env.taskset.data, or data under [env.taskset])."
        )
    load, builder = importlib.import_module("datasets").load_dataset, _FILES.get(Path(data).suffix)
    rows = load(builder, data_files=data, split="train") if builder else load(data, split=split)
    if missing := {COLUMN, "prompt"} - set(rows.column_names):
        raise RatchetError(
            f"{data} has no column {min(missing)}: write it with `ratchet export problems --format prime-rl`."
        )
    return iter(rows)


def _prompt(prompt: Any) -> Any:
    """Messages, or the text of a single one, which every harness takes."""
    return prompt[0]["content"] if not isinstance(prompt, str) and len(prompt) == 1 else prompt
