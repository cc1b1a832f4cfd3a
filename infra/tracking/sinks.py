"""Mirror runs in TensorBoard and Weights & Biases. Their clients keep data in files of their own: a run is sent from
its beginning until it is complete, and files that a killed mirror left are deleted.

TensorBoard has `<home>/tensorboard/<run>/<step>/` with a step's curves and rollouts, the folder above with the run's
own and the scores. W&B has one run, with the curves of every step under its title; its own variables decide where it
goes: `WANDB_API_KEY`, `WANDB_ENTITY`, `WANDB_PROJECT`, `WANDB_BASE_URL`, `WANDB_MODE`.
"""

# pyright: reportMissingImports=false
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from textwrap import indent
from typing import Any

from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.tracking.mirrored import Mirrored, abandoned, last_rows, state_file

Row = dict[str, Any]
FLUSH_S = 10
LONGEST_S = 10.0
"""Seconds for each attempt to reach W&B; the mirror tries again."""
NO_KEY = "it has no key that the service takes: set WANDB_API_KEY, or WANDB_MODE=offline to keep runs here"
SILENT = "{} does not answer: correct WANDB_BASE_URL, or set WANDB_MODE=offline to keep runs here"


class TensorBoard:
    """A run in TensorBoard. A `title` names a step of it, "" the run itself."""

    def __init__(self, run: str, experiment: str, start: Mapping[str, Any], address: Path) -> None:
        self._folder = address / f"{start['name']}-{run}"
        shutil.rmtree(self._folder, ignore_errors=True)  # of a mirror that was killed
        self._writers: dict[str, Any] = {}
        self._shown: dict[str, int] = {}
        """The last step whose rollouts are shown, by title."""

    def metrics(self, title: str, values: Mapping[str, float], step: int, at: float) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore

        if step or not title:  # no folder for single numbers, such as rows kept
            shown = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
            self._write(title, Summary(value=shown), step, at)

    def rollouts(self, title: str, rows: Sequence[Row], at: float) -> None:
        from tensorboard.plugins.text.summary_v2 import text_pb

        new = [row for row in rows if row["step"] > self._shown.get(title, -1)]
        for step, together in groupby(new, itemgetter("step")):
            self._write(title, text_pb("samples", "\n\n".join(map(_markdown, together))), step, at)
            self._shown[title] = step

    def tags(self, tags: Mapping[str, str]) -> None:
        """Ignore tags, which TensorBoard does not have."""

    def _write(self, title: str, summary: Any, step: int, at: float) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if title not in self._writers:
            self._writers[title] = EventFileWriter(str(self._folder / title), flush_secs=FLUSH_S)
        self._writers[title].add_event(Event(wall_time=at, step=step, summary=summary))

    def finish(self, status: str) -> None:
        for writer in self._writers.values():
            writer.close()


def _markdown(row: Row) -> str:
    """A rollout as Markdown; indented, no text of a model is markup."""
    facts = ", ".join(f"{name} {value}" for name, value in row.items() if name not in ("step", "prompt", "response"))
    texts = (f"{name}:\n\n" + indent(row[name], "    ", lambda _: True) for name in ("prompt", "response"))
    return "\n\n".join((facts, *texts))


class WeightsAndBiases:
    """A run in W&B, with the methods of `TensorBoard`."""

    def __init__(self, run: str, experiment: str, start: Mapping[str, Any], address: Path) -> None:
        import wandb

        for left in (address / "wandb").glob(f"*run-*-{run}"):  # of a mirror that was killed
            shutil.rmtree(left)
        self._axes, self._places, self._table = set[str](), count(), wandb.Table
        try:
            self._run = wandb.init(
                project=None if "WANDB_PROJECT" in os.environ else experiment,
                id=run, name=start["name"], config={**start["parameters"], **start["tags"]},
                dir=address, reinit="create_new", resume="allow",
                settings=wandb.Settings(
                    console="off", silent=True, disable_git=True, disable_code=True,
                    x_disable_stats=True, x_disable_meta=True, x_save_requirements=False,
                    init_timeout=LONGEST_S, login_timeout=LONGEST_S,
                ),
            )  # fmt: skip
        except Exception:
            wandb.teardown()  # it holds the run's id
            raise

    def metrics(self, title: str, values: Mapping[str, Any], step: int, at: float) -> None:
        """Send numbers with their step. W&B's own step is the place in the journal: it drops a line that is not above
        the last."""
        named = {f"{title}/{name}" if title else name: value for name, value in values.items()}
        if title and not step:  # single numbers, such as rows kept: no curves
            self._run.summary.update(named)
            return
        axes = {name: f"{name.partition('/')[0]}/step" for name in named}
        for name in named.keys() - self._axes:
            self._run.define_metric(name, step_metric=axes[name])
        self._axes |= named.keys()
        self._run.log({**named, **dict.fromkeys(axes.values(), step), "_timestamp": at}, step=next(self._places))

    def rollouts(self, title: str, rows: Sequence[Row], at: float) -> None:
        columns: list[Any] = list(dict.fromkeys(name for row in rows for name in row))
        table = self._table(columns, [[row.get(name) for name in columns] for row in rows])
        self.metrics(title, {"samples": table}, rows[-1]["step"], at)

    def tags(self, tags: Mapping[str, str]) -> None:
        self._run.config.update(tags, allow_val_change=True)

    def finish(self, status: str) -> None:
        self._run.finish(exit_code=0 if status == "FINISHED" else 1)


Sink = TensorBoard | WeightsAndBiases
SINKS: Mapping[str, type[Sink]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


class WholeRun(Mirrored):
    """One journal in a tracker of `SINKS`."""

    def __init__(self, path: Path, tracker: str, address: Path) -> None:
        if not address.exists():  # deleted: everything is written again
            state_file(path, tracker, str(address)).unlink(missing_ok=True)
        super().__init__(path, tracker, str(address))
        self._address = address
        self._begin()

    def _begin(self) -> None:
        """Start over, as if nothing had been sent."""
        self._offset, self._status, self._experiment = 0, "KILLED", ""
        self._titles: dict[str, str] = {}
        self._sink: Sink | None = None

    def replay(self) -> int:
        try:
            return self._replay()
        except Exception:
            self._begin()
            raise

    def _replay(self) -> int:
        sent, closed, gone = 0, False, abandoned(self.path, self._offset)  # before the last look at what it wrote
        for end, event in read_lines(self.path, self._offset):
            self._send(event)
            closed = event["event"] == "close"
            self._offset, sent = end, sent + 1
        if closed or gone:
            if self._sink:
                self._sink.finish(self._status)
            self.complete = True
        if self.complete or (sent and self.problem):
            self.problem = ""
            self.save()
        return sent

    def _send(self, event: dict[str, Any]) -> None:
        run = event.get("run", "")
        title, sink = self._titles.get(run, ""), self._sink
        match event["event"]:
            case "open":
                self._experiment = event["experiment"]
            case "start" if event["parent"] is None:
                self._sink = SINKS[self.tracker](self.path.stem, self._experiment, event, self._address)
            case "start":
                self._titles[run] = event["name"].replace("/", "-")
            case "metrics" if sink:
                sink.metrics(title, event["values"], event["step"], event["at"])
            case "table" if sink and (rows := last_rows(Path(event["path"]))):
                sink.rollouts(title, rows, event["time"])
            case "tags" if sink and not title:
                sink.tags(event["tags"])
            case "end" if not title:
                self._status = event["status"]

    def reason(self, error: Exception) -> str:
        if self.tracker == "wandb":
            if type(error).__name__ == "UsageError" or re.search(r"\b(401|403)\b", str(error)):
                return NO_KEY
            if re.search(r"deadline exceeded|timed out|timeout|connection refused|no such host", str(error), re.I):
                return SILENT.format(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai")
        return super().reason(error)
