"""The specification of a process group of training: one file of JSON, read by each of its ranks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ratchet.infra.recipe.evaluation import Evaluation
from ratchet.infra.recipe.load import fault_lines
from ratchet.infra.recipe.model import Model
from ratchet.infra.recipe.recipe import Recipe, Verification
from ratchet.infra.recipe.training import Stage, Training
from ratchet.verifiers.errors import RatchetError


class TrainingSpec(BaseModel):
    """The work of one process group."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["warm_start", "stage", "pass_rates", "preflight"]
    """The kind of work. `pass_rates` only measures the start's pass rate on each of a stage's prompts."""
    seed: int
    model: Model
    training: Training
    """Settings of training; `stages` has the stage that is trained or measured, for a preflight all of them."""
    verification: Verification
    evaluation: Evaluation
    """Benchmarks of a stage's validation, its temperature and top-p."""
    work_dir: Path
    """The output directory."""
    domains: tuple[str, ...] = ()
    """Domains of the recipe's curation, for a preflight."""
    model_dir: str | None = None
    """The model that a stage starts from: a directory, or a name on the Hub."""
    reference_model: str | None = None
    """The model of a stage's KL term: a directory, or a name on the Hub. None: the stage's start."""
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
    def of(cls, recipe: Recipe, **work: Any) -> Self:
        """The work on a recipe; for a stage or a measurement, `stage` is its name."""
        return cls.model_validate({"recipe": recipe, **work})

    @model_validator(mode="before")
    @classmethod
    def _from_recipe(cls, value: Any) -> Any:
        """Replace a whole `recipe`, and a stage's name, by the parts that the work reads."""
        if not isinstance(value, Mapping) or "recipe" not in value:
            return value
        recipe, kind, name = Recipe.model_validate(value["recipe"]), value.get("kind"), value.get("stage")
        stages = tuple(each for each in recipe.training.stages if kind == "preflight" or each.name == name)
        if kind in ("stage", "pass_rates") and not stages:
            raise ValueError(f"the recipe {recipe.name} has no stage {name!r}")
        return {name: part for name, part in value.items() if name not in ("recipe", "stage")} | {
            "seed": recipe.seed, "model": recipe.model, "verification": recipe.verification,
            "training": recipe.training.model_copy(update={"stages": stages}), "evaluation": recipe.evaluation,
            "domains": tuple(recipe.curation),
        }  # fmt: skip

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a specification. Raises RatchetError for a file that is not one."""
        try:
            return cls.model_validate_json(file.read_text())
        except (ValidationError, OSError) as error:
            faults = "; ".join(fault_lines(error)) if isinstance(error, ValidationError) else error.strerror
            raise RatchetError(f"{file} is not a specification of training: {faults}") from error

    @property
    def stage(self) -> Stage:
        """The stage that is trained or measured."""
        return self.training.stages[0]

    @property
    def start_model(self) -> str:
        """The starting model, `model_dir`, of a stage."""
        assert self.model_dir is not None, f"no model for {self.kind}"
        return self.model_dir

    @property
    def files(self) -> dict[str, Path]:
        """Every file and directory that the group reads, by field; not a model of the Hub."""
        model = self.model_dir
        on_hub = model and not model.startswith((".", "/", "~")) and not Path(model).exists()
        given = {"model_dir": None if on_hub else model, "traces": self.traces, "pass_rates": self.pass_rates}
        files = {name: Path(path) for name, path in given.items() if path is not None}
        for kind, paths in (("problems", self.problems), ("validation", self.validation)):
            files |= {f"{kind}.{name}": path for name, path in paths.items()}
        return files
