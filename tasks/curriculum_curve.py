"""Log the metrics of all stages as one curve on the run's MLflow page, against the step since the start of training."""

from collections.abc import Mapping
from typing import Any

from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.lineage import stages_up_to
from ratchet.tasks.run_context import RunContext

DRAWN = ("reward", "pass_rate", "entropy", "response_tokens", "truncated", "max_response_tokens")


class Curve:
    """One stage's part of the curve; the stage starts from the checkpoint `start`."""

    def __init__(self, run: RunContext, start: Artifact) -> None:
        before = stages_up_to(start, run.made_from)
        self._run = run
        self._steps = sum(stage.manifest.counts["steps"] for stage in before)
        self._resets = sum((stage.manifest.metrics.get("resets") or 0.0) for stage in before)
        self._stage = float(len(before) + 1)

    def add(self, record: Mapping[str, Any]) -> None:
        """Log a line of the stage's metrics.jsonl."""
        names = [*DRAWN, *(f"{domain}/{name}" for domain in self._run.domains for name in DRAWN)]
        values = {name: record[name] for name in names if name in record}
        values |= {"stage": self._stage, "resets": self._resets + record.get("resets", 0.0)}
        if self._run.tracking:
            curve = {f"curriculum/{name}": value for name, value in values.items()}
            self._run.tracking.metrics(self._run.root, curve, self._steps + record["step"], record.get("time"))


def draw_again(run: RunContext, stage: Artifact) -> None:
    """Log the curve of a cached stage."""
    start = next(read for read in run.made_from(stage) if read.kind in ("checkpoint", "model"))
    curve = Curve(run, start)
    for _, record in read_lines(stage.path / "metrics.jsonl"):
        curve.add(record)
