"""Journals in Weights & Biases: one run each, with the curves of every step under the step's title.

Where it goes is wandb's own to say: `WANDB_API_KEY`, `WANDB_ENTITY`, `WANDB_PROJECT`, `WANDB_BASE_URL`, `WANDB_MODE`.
"""

# pyright: reportMissingImports=false
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import wandb
from wandb.errors import UsageError

from ratchet.infra.tracking.mirrored import WholeRun, last_rows

REFUSED = "it has no key that the service takes: set WANDB_API_KEY, or WANDB_MODE=offline to keep runs here"
SILENT = "{} does not answer: correct WANDB_BASE_URL, or set WANDB_MODE=offline to keep runs here"
LONGEST_S = 10.0
"""Seconds for each attempt to reach the service; the mirror tries again."""


def opener(directory: Path, address: str) -> Callable[[Path], WholeRun]:
    return partial(WandbRun, home=Path(address))


class WandbRun(WholeRun):
    tracker = "wandb"

    def __init__(self, path: Path, home: Path) -> None:
        self._home = home
        super().__init__(path)

    def begin(self) -> None:
        super().begin()
        self._experiment = ""
        self._titles: dict[str, str] = {}
        self._known: set[str] = set()
        self._run: Any = None

    def send(self, event: dict[str, Any]) -> None:
        run = event.get("run", "")
        match event["event"]:
            case "open":
                self._experiment = event["experiment"]
            case "start" if event["parent"] is None:
                self._start(event)
            case "start":
                self._titles[run] = event["name"].replace("/", "-") + "/"
            case "tags" if run == self.path.stem:
                self._run.config.update(event["tags"], allow_val_change=True)
            case "metrics":
                self._log(run, event["values"], event["step"], event["at"])
            case "table":
                if rows := last_rows(Path(event["path"])):
                    columns: list[Any] = list(dict.fromkeys(name for row in rows for name in row))
                    table = wandb.Table(columns, [[row.get(name) for name in columns] for row in rows])
                    self._log(run, {"samples": table}, rows[-1]["step"], event["time"])

    def _start(self, event: dict[str, Any]) -> None:
        for left in (self._home / "wandb").glob(f"*run-*-{self.path.stem}"):  # of a mirror that was killed
            shutil.rmtree(left)
        try:
            self._run = self._opened(event)
        except Exception:
            wandb.teardown()  # it holds the run's id
            raise

    def _opened(self, event: dict[str, Any]) -> Any:
        return wandb.init(
            project=None if "WANDB_PROJECT" in os.environ else self._experiment,
            id=self.path.stem, name=event["name"], config={**event["parameters"], **event["tags"]},
            dir=self._home, reinit="create_new", resume="allow",
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, disable_code=True,
                x_disable_stats=True, x_disable_meta=True, x_save_requirements=False,
                init_timeout=LONGEST_S, login_timeout=LONGEST_S,
            ),
        )  # fmt: skip

    def _log(self, run: str, values: dict[str, Any], step: int, at: float) -> None:
        """Numbers of a step against that step; W&B's own step is the place in the journal, below which it drops what
        it has already."""
        named = {f"{self._titles.get(run, '')}{name}": value for name, value in values.items()}
        if not step and run in self._titles:  # single numbers, such as rows kept: no curves
            self._run.summary.update(named)
            return
        axes = {name: f"{name.partition('/')[0]}/step" for name in named}
        for name in named.keys() - self._known:
            self._run.define_metric(name, step_metric=axes[name])
            self._known.add(name)
        self._run.log({**named, **dict.fromkeys(axes.values(), step), "_timestamp": at}, step=self.offset)

    def finish(self, status: str) -> None:
        if self._run:
            self._run.finish(exit_code=0 if status == "FINISHED" else 1)

    def reason(self, error: Exception) -> str:
        if isinstance(error, UsageError) or re.search(r"\b(401|403)\b", str(error)):
            return REFUSED
        if re.search(r"deadline exceeded|timed out|timeout|connection refused|no such host", str(error), re.IGNORECASE):
            return SILENT.format(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai")
        return super().reason(error)
