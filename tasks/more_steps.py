"""Continue a finished stage whose recipe now has more steps, from a checkpoint that it kept."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.journal import read_lines
from ratchet.infra.recipe.training import Stage
from ratchet.infra.store.artifacts import Artifact, ArtifactStore, artifact_key
from ratchet.infra.store.own_code import own_code
from ratchet.tasks.step import Step
from ratchet.training.checkpoint_files import CHECKPOINTS, checkpoint_steps
from ratchet.training.rollout_log import FOLDER, rollout_files


@dataclass(frozen=True)
class ShorterStage:
    """A finished stage that differs from a planned one only in having fewer steps."""

    artifact: Artifact
    steps: int
    """Steps that it made."""
    kept: int
    """The step of its checkpoint to continue from; 0 if it kept none."""

    @property
    def note(self) -> str:
        """A line about what is continued."""
        made = f"{self.artifact.ref}, this stage with {self.steps} steps,"
        if self.kept:
            return f"continues {made} from step {self.kept}"
        return f"starts at step 1: {made} kept no checkpoint from before its end (training.keep_checkpoints)"

    def copy_to(self, draft: Path) -> None:
        """Fill a stage's draft as if the stage had been interrupted after the kept checkpoint, which comes last: killed
        before it, the stage starts over and calls this once more."""
        made = self.artifact.path
        for file in made.glob("*.jsonl"):  # not links: they are continued in place
            lines = [line for _, line in read_lines(file) if line["step"] <= self.kept]
            (draft / file.name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        (draft / FOLDER).mkdir(exist_ok=True)
        for step, file in rollout_files(made):
            if step <= self.kept:
                _link(file, draft / FOLDER / file.name)
        checkpoint = checkpoint_steps(made / CHECKPOINTS)[self.kept]
        copy = draft / CHECKPOINTS / f".draft-{checkpoint.name}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(checkpoint, copy, copy_function=_link)
        copy.rename(copy.with_name(checkpoint.name))


def find_shorter(
    store: ArtifactStore, step: Step, stage: Stage, parameters: Mapping[str, Any], inputs: Sequence[Artifact],
    code: Iterable[str],
) -> ShorterStage | None:  # fmt: skip
    """The longest finished stage with the same key but for its fewer steps; None if there is none, or if what the stage
    does before its end depends on its number of steps."""
    if stage.lr_scheduler_type != "constant" or stage.advanced.max_staleness or stage.advanced.result == "best":
        return None
    found, own = list[ShorterStage](), own_code(code)
    for other in store.all(f"checkpoint/{stage.name}-*"):
        steps = other.manifest.parameters.get("stage", {}).get("steps", 0)
        same = {**parameters, "stage": parameters["stage"].model_copy(update={"steps": steps})}
        if steps < stage.steps and other.key == artifact_key(
            step.name, step.version, stage.name, same, inputs, (), own
        ):
            made = other.manifest.counts["steps"]
            kept = [number for number in checkpoint_steps(other.path / CHECKPOINTS) if number < made]
            found.append(ShorterStage(other, made, max(kept, default=0)))
    return max(found, key=lambda each: (each.kept, each.steps), default=None)


def _link(source: str | Path, target: str | Path) -> None:
    """A second name for a file that nobody changes, or a copy where the file system has no links."""
    Path(target).unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
