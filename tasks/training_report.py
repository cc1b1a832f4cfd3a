"""The report's pages on training: each stage's curves, one behind the other, with every intervention drawn on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ratchet.evaluation.figures import BENCHMARK_COLORS
from ratchet.infra.artifacts import Artifact
from ratchet.infra.journal import read_lines
from ratchet.infra.pages import INK, MUTED, Drawing, Section
from ratchet.infra.pages.drawing import draw
from ratchet.tasks.curriculum_curve import stages_up_to
from ratchet.training.interventions import Taken

POINTS = 60
"""Of a line over all stages: more steps are drawn as means of neighbors, for a batch's numbers jump."""
LABEL_ROOM = 0.035
"""Share of the width that the words at an intervention take; one that is nearer to the last has its line alone."""
BY_DOMAIN = {
    "reward": "Reward", "pass_rate": "Pass rate", "response_tokens": "Response length, tokens",
    "truncated": "Truncated responses", "entropy": "Entropy, nats per token",
    "advantage_scale": "Advantages, mean size",
}  # fmt: skip
"""What is drawn of each domain, by its name in metrics.jsonl."""
OF_ALL = {"validation": "Validation score", "kl": "KL to the reference, nats per token"}


@dataclass(frozen=True)
class Trained:
    """One stage: `first` is how many steps were before it; `metrics` are the lines of its metrics.jsonl."""

    name: str
    first: int
    domains: tuple[str, ...]
    metrics: Sequence[Mapping[str, Any]]
    taken: Sequence[Taken]


def training_sections(behind: Sequence[Artifact], parents: Callable[[Artifact], Sequence[Artifact]]) -> list[Section]:
    """The training of these checkpoints; of each run apart, where they come from several. Nothing where no stage
    trained any."""
    chains = [stages for artifact in behind if (stages := stages_up_to(artifact, parents))]
    further = {stage.key for stages in chains for stage in stages[:-1]}
    chains = [stages for stages in chains if stages[-1].key not in further]
    sections = []
    for number, chain in enumerate(chains):
        name = f": {chain[-1].name}-{chain[-1].key[:6]}" if len(chains) > 1 else ""
        sections += _sections(_read(chain), name, f"training-{number}" if number else "training")
    return sections


def _sections(stages: Sequence[Trained], name: str, drawing: str) -> list[Section]:
    text = (
        f"{sum(len(stage.metrics) for stage in stages):,} steps in {len(stages)} stages. Each domain has its line; "
        "a gray line begins a stage, a dashed one is an intervention, after the step that it followed."
    )
    taken = [
        {"stage": stage.name, "after step": each.step, "what": each.title, "cause": each.reason}
        for stage in stages
        for each in stage.taken
    ]
    sections = [Section(f"Training{name}", text, drawing=curves(stages, drawing), caption="Stage after stage.")]
    return sections + ([Section(f"Interventions{name}", "What changed on the way, and why.", taken)] if taken else [])


def _read(chain: Sequence[Artifact]) -> list[Trained]:
    stages: list[Trained] = []
    for artifact in chain:
        mix = artifact.manifest["parameters"]["stage"]["mix"]
        metrics = [line for _, line in read_lines(artifact.path / "metrics.jsonl")]
        taken = [Taken.of(line) for line in artifact.manifest.get("interventions", ())]
        mixes = [mix, *(each.changed["mix"][1] for each in taken if "mix" in each.changed)]
        domains = tuple(dict.fromkeys(domain for mix in mixes for domain in mix))
        first = stages[-1].first + len(stages[-1].metrics) if stages else 0
        stages.append(Trained(artifact.name, first, domains, metrics, taken))
    return stages


def curves(stages: Sequence[Trained], name: str = "training") -> Drawing:
    """Against the steps of all stages: what is known of each domain, then of all."""
    known = {name.split("/")[-1] for stage in stages for line in stage.metrics for name in line}
    panels = [(title, partial(_paint, stages, name)) for name, title in (BY_DOMAIN | OF_ALL).items() if name in known]
    return draw("training", panels, width=7.2)


def _paint(stages: Sequence[Trained], name: str, axes: Axes) -> None:
    domains = list(dict.fromkeys(domain for stage in stages for domain in stage.domains))
    colors = dict(zip(domains, cycle(BENCHMARK_COLORS), strict=False)) if name in BY_DOMAIN else {"": INK}
    for who, color in colors.items():
        label = who
        for stage in stages:
            points = max(1, POINTS * len(stage.metrics) // sum(len(each.metrics) for each in stages))
            steps, values = _line(stage, name, who, points)
            if len(steps):
                axes.plot(steps, values, color=color, linewidth=1.5, label=label, marker="" if len(steps) > 1 else "o")
                label = ""  # once in the legend
    if name == "response_tokens":
        for stage in stages:
            limit = [(stage.first + line["step"], line.get("max_response_tokens", np.nan)) for line in stage.metrics]
            axes.plot(*zip(*limit, strict=True), color=MUTED, linewidth=1, linestyle=":")
    _mark(stages, axes)
    axes.set_xlabel("step")
    if len(colors) > 1:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5, frameon=False)


def _line(stage: Trained, name: str, domain: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values; a stage of one domain has its numbers without a prefix."""
    key = name if stage.domains == (domain,) or not domain else f"{domain}/{name}"
    known = [(stage.first + line["step"], line[key]) for line in stage.metrics if key in line]
    if not known:
        return np.empty(0), np.empty(0)
    parts = np.array_split(np.array(known, dtype=float), min(points, len(known)))
    return np.array([part[:, 0].mean() for part in parts]), np.array([part[:, 1].mean() for part in parts])


def _mark(stages: Sequence[Trained], axes: Axes) -> None:
    """Stages with their names at the bottom, interventions with what they did at the top."""
    end = stages[-1].first + len(stages[-1].metrics)
    begun = [(stage.first, stage.name) for stage in stages] if len(stages) > 1 else []
    taken = [(stage.first + each.step, each.title) for stage in stages for each in stage.taken]
    for marks, dashes, side in ((begun, "-", "bottom"), (taken, "--", "top")):
        labelled, below = -np.inf, -2 if side == "top" else 2
        for x, words in marks:
            axes.axvline(x, color=MUTED, linewidth=0.7, linestyle=dashes)
            if x - labelled >= LABEL_ROOM * end:
                labelled = x
                axes.annotate(
                    words, (x, side == "top"), xycoords=("data", "axes fraction"), xytext=(2, below),
                    textcoords="offset points", rotation=90, va=side, fontsize=7, color=MUTED,
                )  # fmt: skip
