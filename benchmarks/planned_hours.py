"""GPU hours that recipes are planned to take on H100s, with each feature that saves some, for docs/howto/sizing.md.

    python -m benchmarks.planned_hours [RECIPE …] [--machines 2 8 16] [--mean 0.5]

A machine has eight GPUs. Each row is the best of the engine layouts named in it. Nothing here was measured: it is the
simulation that `published_steps` compares with published steps.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.settings import Settings, load_settings
from ratchet.tasks.plan import Plan
from ratchet.verifiers.errors import RatchetError

RECIPES = ("acereason-7b", "acereason-14b", "prorl-1.5b")
LAYOUTS = [[f"training.engine.tensor_parallel={n}"] for n in (1, 2, 4, 8)]
LAYOUTS += [[*layout, "training.hardware.rollout_batch=256"] for layout in LAYOUTS]
WITHOUT_COPY = "training.hardware.advanced.hierarchical=false"
TAIL = "training.stages.*.advanced.tail_batching=0.25"
STALE = "training.stages.*.advanced.max_staleness={}"
ON_EACH = 8


class Hours:
    """GPU hours and days of one recipe on so many machines."""

    def __init__(self, name: str, machines: int, mean: float, settings: Settings) -> None:
        self._name, self._machines = name, machines
        self._mean, self._settings = mean, settings

    def _plan(self, recipe: Recipe, training: int) -> tuple[float, float] | None:
        plan = Plan(recipe, self._settings, f"{training}x{ON_EACH}xH100", self._mean)
        return (plan.gpu_hours, plan.hours / 24) if plan.fits else None

    def of(self, choices: Iterable[list[str]], training: int = 0) -> tuple[float, float] | None:
        """The least of some overrides; None if the recipe refuses all, or none fits."""
        found = []
        for overrides in choices:
            try:
                recipe = load_recipe(self._name, overrides, fit=False)
            except RatchetError:
                continue
            found.append(self._plan(recipe, training or self._machines))
        return min(filter(None, found), default=None)

    def stale(self, staleness: int) -> tuple[float, float] | None:
        """With servers on three quarters, half or a quarter of the machines."""
        found = []
        for training in {self._machines // 4, self._machines // 2, self._machines * 3 // 4} - {0}:
            for gpus in (1, 8):
                count = (self._machines - training) * ON_EACH // gpus
                urls = ", ".join(f"http://server-{i}:8700" for i in range(count))
                engine = f"{{kind: vllm-server, url: [{urls}], tensor_parallel: {gpus}, memory_share: 0.9}}"
                machines = f"training.hardware.machines={training}"
                wide = "training.hardware.rollout_batch=256"
                choice = [STALE.format(staleness), f"training.engine={engine}", machines, wide]
                found.append(self.of([choice], training))
        return min(filter(None, found), default=None)

    def rows(self) -> dict[str, tuple[float, float] | None]:
        return {
            "before": self.of([[WITHOUT_COPY]]),
            "a copy of the weights on each machine": self.of([[WITHOUT_COPY.replace("false", "null")]]),
            "tail batching": self.of([[TAIL]]),
            "engine layout": self.of(LAYOUTS),
            "engine layout, tail batching": self.of([[*layout, TAIL] for layout in LAYOUTS]),
            "staleness 1, servers": self.stale(1),
            "staleness 2, servers": self.stale(2),
            "engine layout, staleness 1": self.of([[*layout, STALE.format(1)] for layout in LAYOUTS]),
            "engine layout, staleness 2": self.of([[*layout, STALE.format(2)] for layout in LAYOUTS]),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--machines", type=int, nargs="+", default=[2, 8, 16])
    parser.add_argument("--mean", type=float, default=0.5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings(Path(home))
        for name in asked.recipes:
            columns = [Hours(name, machines, asked.mean, settings).rows() for machines in asked.machines]
            heads = " | ".join(f"{machines * ON_EACH} H100 | days | times fewer" for machines in asked.machines)
            print(f"| {name} | {heads} |\n|---|{'---:|' * (3 * len(columns))}")
            for row in columns[0]:
                cells = []
                for column in columns:
                    first, found = column["before"], column[row]
                    times = f"{first[0] / found[0]:.2f}" if first and found else "–"
                    cells += [f"{found[0]:,.0f}", f"{found[1]:.1f}", times] if found else ["–"] * 3
                print(f"| {row} | {' | '.join(cells)} |")
            print(flush=True)


if __name__ == "__main__":
    main()
