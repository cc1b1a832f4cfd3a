"""One run of a flow from its steps' view: recipe, store, lineage and display."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ratchet.data_curation.settings.curation import CURATION_STEPS, Steps
from ratchet.infra.launching.fork_server import ForkServer
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.infra.store.approvals import Approval
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.tracking.events import Tracking
from ratchet.tasks.reporter import ProgressReporter
from ratchet.verifiers.errors import RatchetError, nearest

HELD_OUT = "held_out"
"""The step that reads a benchmark."""
AFTER_HELD_OUT = CURATION_STEPS[CURATION_STEPS.index("decontaminate") + 1 :]
"""The steps after the one that compares with benchmarks."""


@dataclass(frozen=True)
class PlannedStep:
    """A step that a flow has reached."""

    title: str
    output: Artifact
    inputs: tuple[Artifact, ...]
    """Inputs that this run gives it; the output's manifest may name others with the same content."""
    cached: bool
    not_done: str = ""
    """The reason why the step cannot run; "" if it can."""
    left_out: bool = False
    """True if only other steps were chosen."""
    name: str = ""
    estimate: Callable[[], str] | None = None
    """A function that describes the cost of making the output, once its inputs exist."""
    check: Callable[[], None] | None = None
    """A function that raises RatchetError for a missing requirement."""
    trial: Callable[[], Iterable[str]] | None = None
    """A function that tries what the step reads, for a dry run, and yields what it found as lines of text; one that
    begins with `! ` is a warning."""
    same_as: Artifact | None = None
    """An earlier artifact with the same content."""
    approval: Approval | None = None
    """The undecided approval at which a run has already waited."""

    @property
    def done(self) -> bool:
        return self.cached or self.left_out or bool(self.not_done)


@dataclass
class RunContext:
    """The context of a run, which a flow passes to its steps. Without `tracking` it is a plan: only keys are
    computed."""

    recipe: Recipe
    domains: tuple[str, ...]
    """Domains that the recipe has problems of."""
    settings: Settings
    store: ArtifactStore
    reporter: ProgressReporter
    tracking: Tracking | None
    overrides: str = ""
    name: str = ""
    root: str = ""
    """Id of the run in the tracking journal."""
    in_prefect: bool = False
    """True if steps are Prefect tasks instead of plain calls."""
    tracked: bool = False
    """True if MLflow had received everything at the end of the run."""
    plan: list[PlannedStep] = field(default_factory=list)
    """The steps that the flow has reached, in order."""
    steps: Steps = field(default_factory=Steps)
    """The steps that were chosen."""
    children: dict[str, str] = field(default_factory=dict)
    """The steps' runs in the journal, by the keys of their outputs."""
    fork_server: ForkServer = field(
        default_factory=lambda: ForkServer("ratchet.training.launch", "ratchet.evaluation.main")
    )
    """A process that runs this machine's process groups, one after the other."""

    @property
    def outputs(self) -> list[Artifact]:
        """Outputs of the chosen steps, in order."""
        return [step.output for step in self.plan if not (step.left_out or step.not_done)]

    @property
    def trained(self) -> list[Artifact]:
        """The checkpoints among the outputs."""
        return [output for output in self.outputs if output.kind == "checkpoint"]

    @property
    def inputs(self) -> dict[str, tuple[Artifact, ...]]:
        """Inputs of each step, by the key of its output."""
        return {step.output.key: step.inputs for step in self.plan if not step.not_done}

    def chooses(self, step: str, title: str, inputs: Sequence[Artifact]) -> bool:
        """True if this step is chosen. Raises RatchetError when it is and an input does not exist."""
        outputs = {artifact.key for artifact in self.outputs}
        if step == HELD_OUT:  # needed by `decontaminate`, whichever step was named to reach it
            chosen = self.steps.only in (None, "decontaminate") and self.steps.start not in AFTER_HELD_OUT
        elif self.steps.only:
            chosen = step == self.steps.only
        elif self.steps.start:
            chosen = step == self.steps.start or any(artifact.key in outputs for artifact in inputs)
        else:
            chosen = True
        absent = [a for a in inputs if a.key not in outputs and not a.path.exists()]
        if chosen and absent:
            state = "does not exist yet with these settings. Run the earlier steps first: without --only and --from."
            if not (self.steps.only or self.steps.start):
                state = "is no longer in the store. Run again what made it."
            raise RatchetError(f"{title} reads {', '.join(a.ref for a in absent)}, which {state}")
        return chosen

    def check_steps(self) -> None:
        """Raise RatchetError for a chosen step that the flow has not reached by its end."""
        reached = {step.name: step.not_done for step in self.plan}
        for name in (self.steps.only, self.steps.start, *self.steps.refresh):
            if name and name not in reached:
                own = {step.name for step in self.plan if step.output.kind in ("problems", "attempts")} - {HELD_OUT}
                names = [names for names in reached if names in own]
                raise RatchetError(f"There is no step {name} here.{nearest(name, names)} Known: {', '.join(names)}.")
            if name and reached[name]:
                raise RatchetError(f"The step {name} cannot run: {reached[name]}.")

    def made_from(self, artifact: Artifact) -> Sequence[Artifact]:
        """The inputs that this run gave the step, or those in its manifest."""
        return self.inputs.get(artifact.key) or self.store.parents(artifact)

    def outcome(self, result: Any) -> Artifact:
        """The final artifact of a run whose flow returned `result`."""
        artifact = getattr(result, "checkpoint", result)
        return artifact if artifact in self.outputs else self.outputs[-1]  # only some steps ran

    @property
    def planning(self) -> bool:
        return self.tracking is None

    def phase(self, title: str) -> None:
        if not self.planning:
            self.reporter.phase(title)


def findings(plan: Sequence[PlannedStep]) -> Iterator[str]:
    """The lines of the planned steps' trials."""
    for step in plan:
        if step.trial and not step.done:
            yield from step.trial()


def missing(plan: Sequence[PlannedStep]) -> list[str]:
    """The missing requirements of the planned steps, each once."""
    faults: dict[str, None] = {}
    for step in plan:
        if step.check and not (step.cached or step.left_out):
            try:
                step.check()
            except RatchetError as error:
                faults[str(error)] = None
    return list(faults)
