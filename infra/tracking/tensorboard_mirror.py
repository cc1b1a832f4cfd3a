"""Journals as TensorBoard event files: `<home>/tensorboard/<run>/<step>/` has a step's curves and its rollouts to read,
the folder above it the run's own curves and the scores."""

# pyright: reportMissingImports=false
import shutil
from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from textwrap import indent
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event  # type: ignore  # made when it is imported
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ratchet.infra.tracking.mirrored import WholeRun, last_rows, state_file

FLUSH_S = 10


def opener(directory: Path, address: str) -> Callable[[Path], WholeRun]:
    if not Path(address).exists():  # deleted: everything is written again
        for journal in directory.glob("*.jsonl"):
            state_file(journal, TensorboardRun.tracker).unlink(missing_ok=True)
    return partial(TensorboardRun, root=Path(address))


class TensorboardRun(WholeRun):
    tracker = "tensorboard"

    def __init__(self, path: Path, root: Path) -> None:
        self._root = root
        super().__init__(path)

    def begin(self) -> None:
        super().begin()
        self._folders: dict[str, Path] = {}
        self._writers: dict[str, EventFileWriter] = {}
        self._shown: dict[str, int] = {}
        """The last step whose rollouts are shown, by run."""

    def send(self, event: dict[str, Any]) -> None:
        run = event.get("run", "")
        match event["event"]:
            case "start" if event["parent"] is None:
                self._folders[run] = self._root / f"{event['name']}-{self.path.stem}"
                shutil.rmtree(self._folders[run], ignore_errors=True)  # of a mirror that was killed
            case "start":
                self._folders[run] = self._folders[event["parent"]] / event["name"].replace("/", "-")
            case "metrics" if event["step"] or run == self.path.stem:  # no folder for single numbers, such as rows kept
                values = [Summary.Value(tag=name, simple_value=value) for name, value in event["values"].items()]
                self._write(run, Summary(value=values), event["step"], event["at"])
            case "table":
                new = [row for row in last_rows(Path(event["path"])) if row["step"] > self._shown.get(run, -1)]
                for step, rows in groupby(new, itemgetter("step")):
                    self._write(run, text_pb("samples", "\n\n".join(map(_readable, rows))), step, event["time"])
                    self._shown[run] = step
            case "end" if writer := self._writers.pop(run, None):
                writer.close()

    def _write(self, run: str, summary: Summary, step: int, at: float) -> None:
        if run not in self._writers:
            self._writers[run] = EventFileWriter(str(self._folders[run]), flush_secs=FLUSH_S)
        self._writers[run].add_event(Event(wall_time=at, step=step, summary=summary))

    def finish(self, status: str) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def _readable(row: dict[str, Any]) -> str:
    """A rollout as Markdown; indented, no text of a model is markup."""
    facts = ", ".join(f"{name} {value}" for name, value in row.items() if name not in ("step", "prompt", "response"))
    texts = (f"{name}:\n\n" + indent(row[name], "    ", lambda _: True) for name in ("prompt", "response"))
    return "\n\n".join((facts, *texts))
