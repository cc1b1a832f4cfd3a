"""A whole recipe. This package has every default of Ratchet, with its unit and reason.

It imports nothing heavy: a recipe is read and checked in well under a second, without torch or Prefect.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from ratchet.data_curation.base.bounds import Difference, Probability, ProcessesOrZero, Seed
from ratchet.data_curation.base.section import NotInKey, Section
from ratchet.data_curation.settings.curation import Curation
from ratchet.infra.recipe.evaluation import Benchmark, Evaluation
from ratchet.infra.recipe.model import Model
from ratchet.infra.recipe.training import Stage, Training
from ratchet.verifiers.submission import JudgeSettings


class Generator(Section):
    """Raw files written by a function, which `curation` and `evaluation` read as `generated://NAME/FILE`. Other fields
    are the function's own settings, checked by the types of its parameters: an int is a count, from 0."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    by: str
    """The function, `package.module:function`, called with a directory to write to, the recipe's seed and settings."""

    @property
    def settings(self) -> dict[str, Any]:
        return self.__pydantic_extra__ or {}


class Verification(Section):
    """Verification of responses, and the isolation that it needs."""

    math: Literal["strict", "either"] = "strict"
    """`either` also accepts answers that math-verify accepts (`pip install '.[math-verify]'`), as ProRL does:
    a few more right answers, and some wrong ones (docs/reference/math_verifier.md)."""
    minimum_isolation: NotInKey[Literal["A", "B", "C"]] = "C"
    """The lowest rung of the isolation ladder (docs/explanation/sandbox.md) on which a model's code may run. C works in
    a stock container, and confines everything but the reading of files."""

    def settings(self, fraction: bool = False, total_s: float | None = None) -> JudgeSettings:
        return JudgeSettings(fraction, self.math == "either", total_s, self.minimum_isolation)


class Gate(Section):
    """Requirements on the last checkpoint for the alias `best`."""

    benchmark: str
    """A benchmark of the recipe; its pass@1 decides."""
    at_least: Probability = 0.0
    """Minimum pass@1."""
    gain: Difference = 0.0
    """Gain of pass@1 over the best so far that must be exceeded, on the same questions."""


class Recipe(Section):
    """Everything that decides a pipeline's results, and nothing about its machine."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    needs: str = ""
    """The hardware and data that the recipe needs, and where it has run."""
    seed: Seed = 0
    domains: tuple[str, ...] = ()
    """Your own domains by import path, `my_lab.logic`: docs/tutorials/own_domain.md."""
    generate: dict[str, Generator] = {}
    """Generated raw files, by the NAME in `generated://NAME/FILE`."""
    model: Model = Model()
    curation: dict[str, Curation] = {}
    """Curation of each domain, by its name."""
    workers: NotInKey[ProcessesOrZero] = 0
    """Maximum processes on this machine; 0: one per core."""
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    verification: Verification = Verification()
    gate: Gate | None = None
    """Requirements on the last checkpoint for the alias `best`; without a gate none gets it. Each run's last checkpoint
    becomes a version of the registered model with the recipe's name, and the newest has the alias `candidate`."""
    approve: NotInKey[tuple[str, ...]] = ()
    """Gates at which the run waits for a person: `curated` (the problems, before training), `start` (the first
    checkpoint), or a stage by name (docs/howto/workers.md)."""

    _cpu_overrides: tuple[str, ...] = PrivateAttr(default=())

    @property
    def cpu_overrides(self) -> tuple[str, ...]:
        """Overrides that apply because there is no GPU here, in the form that `--set` takes; not written with the
        recipe."""
        return self._cpu_overrides

    def __eq__(self, other: object) -> bool:
        """Equal fields; `cpu_overrides` says how a recipe was loaded and is no part of it."""
        return isinstance(other, Recipe) and self.__dict__ == other.__dict__

    def with_cpu_overrides(self, overrides: Sequence[str]) -> "Recipe":
        """A copy of the recipe with these `cpu_overrides`."""
        recipe = self.model_copy()
        recipe._cpu_overrides = tuple(overrides)
        return recipe

    def validation_benchmarks(self, stage: Stage) -> list[Benchmark]:
        """The benchmarks that a stage validates on (those that it names, or those of its domains), and those that it
        keeps."""
        if not stage.validates:
            return []
        benchmarks = self.evaluation.benchmarks
        blend = [b for b in benchmarks if b.name in stage.validation] or [
            b for b in benchmarks if b.domain in stage.domains
        ]
        return [b for b in benchmarks if b in blend or {b.name, b.domain} & set(stage.keep)]

    def curation_of(self, domain: str) -> Curation:
        return self.curation.get(domain) or Curation()

    @model_validator(mode="after")
    def _names_exist(self) -> "Recipe":
        points = ["start", *(stage.name for stage in self.training.stages)]
        benchmarks, gate = [benchmark.name for benchmark in self.evaluation.benchmarks], self.gate
        named = [("evaluation.after", self.evaluation.after, points), ("approve", self.approve, ["curated", *points])]
        named += [(f"stage {stage.name}: validation", stage.validation, benchmarks) for stage in self.training.stages]
        kept = [*benchmarks, *(b.domain for b in self.evaluation.benchmarks)]
        named += [(f"stage {stage.name}: keep", tuple(stage.keep), kept) for stage in self.training.stages]
        named += [("gate.benchmark", (gate.benchmark,), benchmarks)] if gate else []
        for field, names, names_known in named:
            for name in names:
                if name not in names_known:
                    raise ValueError(
                        f"{field} names {name!r}; known: {', '.join(names_known) or 'none'}. A recipe that lacks "
                        f"{field} has that of the recipe which it extends"
                    )
        if self.training.advanced.lora and self.model.path is None:
            raise ValueError("training.advanced.lora adapts an existing model, but model.path names none")
        if gate and points[-1] not in self.evaluation.after:
            raise ValueError(f"gate: evaluation.after does not name {points[-1]}, which ends the training")
        return self
