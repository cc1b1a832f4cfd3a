"""A whole recipe. Every default of the product lives in this room, with its unit and its reason.

Nothing heavy is imported: a recipe is read, checked and printed in well under a second on a machine that has
neither torch nor Prefect. All models are frozen and refuse unknown keys.
"""

from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from ratchet.infra.recipe.curation import Curation
from ratchet.infra.recipe.evaluation import Evaluation
from ratchet.infra.recipe.model import Model
from ratchet.infra.recipe.registry import Registry
from ratchet.infra.recipe.training import Training
from ratchet.infra.section import Section, Where


class Generator(Section):
    """Raw material that a function makes: files that `curation` and `evaluation` then read like anyone's, as
    `generated://NAME/FILE`. Beside `by`, the function's own settings."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    by: str
    """The function, `package.module:function`; it is called with a directory to write into, the recipe's seed, and the
    settings by name."""

    @property
    def settings(self) -> dict[str, Any]:
        return self.__pydantic_extra__ or {}


class Verification(Section):
    """How responses are judged, and what that demands of the machine."""

    math: Literal["strict", "either"] = "strict"
    """`either`: right is also what math-verify accepts (`pip install 'ratchet-rl[math-verify]'`), as ProRL judges. It
    takes a few right answers more, and some wrong ones (docs/math_verifier.md)."""
    minimum_isolation: Where[Literal["A", "B", "C"]] = "C"
    """The lowest rung of the isolation ladder (docs/sandbox.md) on which a model's code may run; a machine that offers
    less refuses. C, so that a stock container works: it confines everything but the reading of files."""


class Recipe(Section):
    """Everything that decides what a pipeline makes, and nothing about the machine it runs on."""

    name: str = Field(..., pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    needs: str = ""
    """What it takes to run, and where it has run: for who chooses one."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    domains: tuple[str, ...] = ()
    """Your own domains by import path, `my_lab.logic`: docs/own_domain.md."""
    generate: dict[str, Generator] = {}
    """Raw files that are made and not given, by the name under which `generated://NAME/FILE` finds them."""
    model: Model = Model()
    curation: dict[str, Curation] = {}
    """By domain."""
    runner: Where[str] = Field(default="processes", pattern=r"^(processes|dask|(tcp|tls)://\S+)$")
    """Where the row-wise steps of curation are done: `processes` of this machine, `dask` (a Dask cluster of this
    machine's cores), or the address of a Dask scheduler, `tcp://HOST:8786`. The rows are the same anywhere."""
    workers: Where[int] = Field(default=0, ge=0)
    """Processes of this machine at most; 0: as many as it has cores."""
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    verification: Verification = Verification()
    registry: Registry = Registry()
    approve: Where[tuple[str, ...]] = ()
    """What a person approves before the run goes on: `curated`, the problems, before anything is trained on them; the
    checkpoint `start`; or a stage by its name. Each with its evaluation, where there is one (docs/operations.md)."""

    def curation_of(self, domain: str) -> Curation:
        return self.curation.get(domain) or Curation()

    @model_validator(mode="after")
    def _named_stages_exist(self) -> "Recipe":
        known = ["start", *(stage.name for stage in self.training.stages)]
        for name in self.evaluation.after:
            if name not in known:
                raise ValueError(f"evaluation.after names {name!r}; there is {', '.join(known)}")
        for name in self.approve:
            if name not in ("curated", *known):
                raise ValueError(f"approve names {name!r}; there is {', '.join(('curated', *known))}")
        benchmarks = [benchmark.name for benchmark in self.evaluation.benchmarks]
        for stage in self.training.stages:
            for name in stage.validation:
                if name not in benchmarks:
                    there = ", ".join(benchmarks) or "none"
                    raise ValueError(f"stage {stage.name}: validation names {name!r}; benchmarks are {there}")
        if gate := self.registry.gate:
            if gate.benchmark not in benchmarks:
                there = ", ".join(benchmarks) or "none"
                raise ValueError(f"registry.gate.benchmark is {gate.benchmark!r}; benchmarks are {there}")
            if known[-1] not in self.evaluation.after:
                raise ValueError(f"registry.gate: evaluation.after does not name {known[-1]}, which ends the training")
        return self
