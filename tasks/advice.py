"""Settings that would make a plan cheaper, one by one and together: `ratchet plan … --advise`.

Settings are those of `--set`. Nothing is tried that the recipe refuses or that does not fit into memory and cache.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ratchet.infra.inference.with_vllm import Vllm
from ratchet.infra.recipe import Recipe
from ratchet.tasks.plan import Plan
from ratchet.verifiers.errors import RatchetError

EXACT = "identical up to rounding"
ORDER = "on-policy; prompts in another order"
BATCH = "on-policy; larger, fewer updates"
STALE = "off-policy by up to {}"
DIGITS = "0123456789"
EXACTNESS = ("", EXACT, ORDER, BATCH, STALE.format(""))
"""Kinds of exactness, the strictest first."""
TAIL = 0.25
"""Share of prompts beyond a step's, for tail batching: RollPacker's (arXiv 2509.21009)."""
SAVES = 1.02
"""Speedup from which a change is shown."""
STAGES, HARDWARE, ENGINE = "training.stages", "training.hardware", "training.engine"


@dataclass(frozen=True)
class Advice:
    """A plan after a `change`, compared with the one without."""

    change: str
    settings: tuple[str, ...]
    """Changes of the recipe, as `--set` takes them."""
    exactness: str
    gpus: int
    hours: float
    gpu_hours: float
    speedup: float
    """GPU hours without the change over those with it."""
    efficiency: float
    """MFU: share of all GPUs' peak arithmetic."""


@dataclass(frozen=True)
class PlanChange:
    summary: str
    settings: tuple[str, ...] = ()
    exactness: str = EXACT
    machines: int | None = None
    """GPUs used for training; None means all."""


def _beats(one: Advice, other: Advice) -> bool:
    exact = EXACTNESS.index(one.exactness.rstrip(DIGITS)) <= EXACTNESS.index(other.exactness.rstrip(DIGITS))
    return exact and one != other and one.gpu_hours <= other.gpu_hours and one.hours <= other.hours


class Advisor:
    """Alternatives to `plan`. `recipe_with` reads its recipe with more `--set`."""

    def __init__(self, plan: Plan, recipe_with: Callable[[Sequence[str]], Recipe]) -> None:
        self._plan, self._recipe_with = plan, recipe_with
        self._tried: dict[tuple[str, ...], Advice | None] = {}
        self._without = plan.gpu_hours

    def advice(self) -> list[Advice]:
        """The plan itself, each change alone that saves, and of all schedules and numbers of machines, each with the
        layout that suits it best, those that none as exact beats in both hours and GPU hours; the cheapest first."""
        machines = self._machines()
        alone = [*self._layouts(), *self._schedules(machines[0].machines), *machines[1:]]
        rows = [self._try((change,)) for change in (PlanChange(""), *alone)]
        together = []
        for fewer in machines:
            for schedule in (PlanChange(""), *self._schedules(fewer.machines)):
                start = tuple(each for each in (fewer, schedule) if each.settings)
                together.append(self._with_best_layout(start))
        planned = [row for row in together if row]
        rows += [row for row in planned if not any(_beats(other, row) for other in planned)]
        saving = {row.settings: row for row in rows if row and (not row.settings or row.speedup >= SAVES)}
        return sorted(saving.values(), key=lambda row: row.gpu_hours)

    def _with_best_layout(self, changes: tuple[PlanChange, ...]) -> Advice | None:
        best, groups = self._try(changes), dict[str, list[PlanChange]]()
        for layout in self._layouts():
            groups.setdefault(layout.settings[0].split("=")[0], []).append(layout)
        replaced = any(setting.startswith(f"{ENGINE}=") for change in changes for setting in change.settings)
        for name, layouts in groups.items():
            if replaced and name.startswith(ENGINE):
                continue
            rows = [(row, (*changes, each)) for each in layouts if (row := self._try((*changes, each)))]
            row, longer = min(rows, key=lambda each: each[0].gpu_hours, default=(best, changes))
            if row and (best is None or row.gpu_hours * SAVES < best.gpu_hours):
                best, changes = row, longer
        return best

    def _try(self, changes: tuple[PlanChange, ...]) -> Advice | None:
        """The plan with these changes; None if the recipe refuses them together or they do not fit."""
        settings = tuple(setting for change in changes for setting in change.settings)
        if settings not in self._tried:
            self._tried[settings] = self._planned(changes, settings)
        return self._tried[settings]

    def _planned(self, changes: tuple[PlanChange, ...], settings: tuple[str, ...]) -> Advice | None:
        machine = self._plan.machine
        training = min((change.machines for change in changes if change.machines), default=machine.machines)
        if training < machine.machines:
            cores = machine.cores * training // machine.machines
            machine = replace(machine, count=training * machine.in_one, cores=cores)
        try:
            plan = self._plan.on(machine, self._recipe_with(settings) if settings else None)
            if settings and not plan.fits:
                return None
            exactness = next((change.exactness for change in changes if change.exactness != EXACT), EXACT)
            words = ", ".join(change.summary for change in changes if change.summary)
            saved = self._without / plan.gpu_hours
            return Advice(
                words or "current settings", settings, exactness if settings else "", plan.gpus, plan.hours,
                plan.gpu_hours, saved, plan.efficiency,
            )  # fmt: skip
        except RatchetError:
            return None

    def _layouts(self) -> list[PlanChange]:
        """Changes of where and how wide things are computed; of those with the same setting, one at a time."""
        plan, hardware, engine = self._plan, self._plan.training.hardware, self._plan.training.engine
        changes = []
        if isinstance(engine, Vllm):
            sizes = [n for n in (1, 2, 4, 8) if plan.machine.in_one % n == 0 and n != engine.tensor_parallel]
            changes += [PlanChange(f"{n} GPUs per engine", (f"{ENGINE}.tensor_parallel={n}",)) for n in sizes]
        for times in (2, 4):
            wide = times * hardware.rollout_batch
            changes.append(PlanChange(f"{wide} responses decoded together", (f"{HARDWARE}.rollout_batch={wide}",)))
        if hardware.zero_stage == 3:
            changes.append(PlanChange("ZeRO 2", (f"{HARDWARE}.zero_stage=2",)))
            other = plan.stages[0][1].copied_among == 1
            words = "a copy of the weights on each machine" if other else "no copy of the weights on each machine"
            changes.append(PlanChange(words, (f"{HARDWARE}.advanced.hierarchical={str(other).lower()}",)))
        return changes

    def _schedules(self, machines: int | None) -> Iterator[PlanChange]:
        """The responses that a step learns from, on so many machines (None means all)."""
        yield PlanChange("tail batching", (f"{STAGES}.*.advanced.tail_batching={TAIL}",), ORDER)
        settings = []
        for stage in self._plan.training.stages:
            settings.append(f"{STAGES}.{stage.name}.prompts_per_batch={2 * stage.prompts_per_batch}")
            settings.append(f"{STAGES}.{stage.name}.steps={max(1, stage.steps // 2)}")
        yield PlanChange("twice the prompts in half the steps", tuple(settings), BATCH)
        total, on_each = machines or self._plan.machine.machines, self._plan.machine.in_one
        if not isinstance(self._plan.training.engine, Vllm):
            return
        for staleness in (1, 2):
            stale = f"{STAGES}.*.advanced.max_staleness={staleness}"
            yield PlanChange(f"staleness {staleness}", (stale,), STALE.format(staleness))
            for train in {total // 2, total // 4} - {0}:
                serve = total - train
                urls = ", ".join(f"http://machine-{train + 1 + i}:8700" for i in range(serve))
                engine = f"{{kind: vllm-server, url: [{urls}], tensor_parallel: {on_each}, memory_share: 0.9}}"
                words = f"staleness {staleness}, {train} machines train and {serve} serve, {on_each} GPUs per engine"
                asked = (stale, f"{ENGINE}={engine}", f"{HARDWARE}.machines={train}")
                yield PlanChange(words, asked, STALE.format(staleness), machines=train)

    def _machines(self) -> list[PlanChange]:
        """Numbers of machines: all, and fewer."""
        total = self._plan.machine.machines
        fewer = [total // part for part in (2, 4, 8) if total >= part]
        return [
            PlanChange("", machines=None),
            *(PlanChange(f"{n} of {total} machines", (f"{HARDWARE}.machines={n}",), machines=n) for n in fewer),
        ]
