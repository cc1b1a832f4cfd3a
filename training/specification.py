"""The specification of a process group of training: one file of JSON, read by each of its ranks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage
from ratchet.verifiers.errors import RatchetError


class TrainingSpec(BaseModel):
    """The work of one process group."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["warm_start", "stage", "pass_rates", "preflight"]
    """`pass_rates` only measures how often the start solves each of a stage's prompts."""
    recipe: Recipe
    work_dir: Path
    """The output directory."""
    stage: str | None = None
    """The stage's name in the recipe."""
    model_dir: str | None = None
    """The model that a stage starts from: a directory, or a name on the Hub."""
    problems: Mapping[str, Path] = {}
    """`kept.parquet` of each domain of the stage's mix."""
    traces: Path | None = None
    """A warm start's traces: Parquet with the columns prompt (the user turn) and response."""
    pass_rates: Path | None = None
    """`pass_rates.jsonl` of the measurement, if the stage has a `max_pass_rate`."""
    validation: Mapping[str, Path] = {}
    """Parquet of each benchmark, if something depends on a validation score."""
    measured: Path | None = None
    """File for the rates that a preflight measures."""

    @classmethod
    def read(cls, file: Path) -> Self:
        """Raises RatchetError for a file that is no specification."""
        try:
            return cls.model_validate_json(file.read_text())
        except (ValidationError, OSError) as error:
            raise RatchetError(f"{file} is not a specification of training: {error}") from error

    @property
    def stage_settings(self) -> Stage:
        """Raises RatchetError if the recipe has no stage of this name."""
        for stage in self.recipe.training.stages:
            if stage.name == self.stage:
                return stage
        raise RatchetError(f"The recipe {self.recipe.name} has no stage {self.stage!r}.")

    @property
    def start_model(self) -> str:
        """`model_dir`, which a stage has."""
        assert self.model_dir is not None, f"no model for {self.kind}"
        return self.model_dir

    @property
    def files(self) -> dict[str, Path]:
        """Every file and directory that it reads, by field."""
        given = {"model_dir": self.model_dir, "traces": self.traces, "pass_rates": self.pass_rates}
        files = {name: Path(path) for name, path in given.items() if path is not None}
        for kind, paths in (("problems", self.problems), ("validation", self.validation)):
            files |= {f"{kind}.{name}": path for name, path in paths.items()}
        return files
