"""Training in the report: each metric over all stages, with stage boundaries and interventions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ratchet.data_curation.base.journal import read_lines
from ratchet.evaluation.figures import BENCHMARK_COLORS
from ratchet.infra.pages import INK, MUTED, Section
from ratchet.infra.pages.drawing import Painter, draw
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.lineage import stages_up_to
from ratchet.infra.store.manifest import CheckpointManifest
from ratchet.training.interventions import AppliedIntervention

POINTS = 60
"""Points of a line over all stages; if there are more steps, they are averaged, because single batches are noisy."""
LABEL_ROOM = 0.055
"""Share of the width that a slanted or vertical label takes; a mark nearer to the last label has none."""
TITLES = {
    "reward": "Reward", "response_tokens": "Response length, tokens", "entropy": "Entropy, nats per token",
    "validation": "Validation score", "truncated": "Truncated responses", "kl": "KL to the reference, nats per token",
    "pass_rate": "Pass rate", "advantage_scale": "Mean absolute advantage",
}  # fmt: skip
"""Titles of the metrics that are drawn, the most important first."""
SHOWN = 4
"""Number of panels that are not folded."""
OF_ALL_DOMAINS = ("validation", "kl")


@dataclass(frozen=True)
class StageCurves:
    """One stage: `first` is the number of steps before it; `metrics` are the lines of its metrics.jsonl."""

    name: str
    first: int
    domains: tuple[str, ...]
    metrics: Sequence[Mapping[str, Any]]
    interventions: Sequence[AppliedIntervention]


def training_sections(behind: Sequence[Artifact], parents: Callable[[Artifact], Sequence[Artifact]]) -> list[Section]:
    """The training of these checkpoints, separately for each training run; empty without trained stages."""
    chains = [stages for artifact in behind if (stages := stages_up_to(artifact, parents))]
    further = {stage.key for stages in chains for stage in stages[:-1]}
    chains = [stages for stages in chains if stages[-1].key not in further]
    sections = []
    for number, chain in enumerate(chains):
        name = f": {chain[-1].name}-{chain[-1].key[:6]}" if len(chains) > 1 else ""
        sections += _sections(_read(chain), name, f"training-{number}" if number else "training")
    return sections


def _sections(stages: Sequence[StageCurves], name: str, file: str) -> list[Section]:
    steps = sum(len(stage.metrics) for stage in stages)
    caption = (
        f"{steps:,} steps in {len(stages)} stage{'s' * (len(stages) > 1)}. Solid gray: start of a stage; dashed: an "
        "intervention; dotted: the response limit."
    )
    intervention_rows = [
        {"stage": stage.name, "after step": change.step, "what": change.title, "cause": change.reason}
        for stage in stages
        for change in stage.interventions
    ]
    panels = curves(stages)
    main, others = (draw(file + part, some) if some else None
                     for part, some in (("", panels[:SHOWN]), ("-other", panels[SHOWN:])))  # fmt: skip
    sections = [
        Section(f"Training{name}", drawing=main, caption=caption),
        Section(f"Other training metrics{name}", drawing=others, folded=True),
        Section(f"Interventions{name}", table=intervention_rows, folded=True),
    ]
    return [section for section in sections if section.drawing or section.table]


def _read(chain: Sequence[Artifact]) -> list[StageCurves]:
    stages: list[StageCurves] = []
    for artifact in chain:
        mix = artifact.manifest.parameters["stage"]["mix"]
        metrics = [line for _, line in read_lines(artifact.path / "metrics.jsonl")]
        interventions = [AppliedIntervention.of(line) for line in CheckpointManifest.of(artifact).interventions]
        mixes = [mix, *(change.changed["mix"][1] for change in interventions if "mix" in change.changed)]
        domains = tuple(dict.fromkeys(domain for mix in mixes for domain in mix))
        first = stages[-1].first + len(stages[-1].metrics) if stages else 0
        stages.append(StageCurves(artifact.name, first, domains, metrics, interventions))
    return stages


def curves(stages: Sequence[StageCurves]) -> list[tuple[str, Painter]]:
    """The panels for each metric that is not 0 throughout, against the step."""
    lines = [line for stage in stages for line in stage.metrics]
    logged = {name.split("/")[-1] for line in lines for name, value in line.items() if value}
    return [(title, partial(_paint, stages, name)) for name, title in TITLES.items() if name in logged]


def _paint(stages: Sequence[StageCurves], name: str, axes: Axes) -> None:
    domains = list(dict.fromkeys(domain for stage in stages for domain in stage.domains))
    colors = {"": INK} if name in OF_ALL_DOMAINS else dict(zip(domains, cycle(BENCHMARK_COLORS), strict=False))
    for domain, color in colors.items():
        label = domain
        for stage in stages:
            points = max(1, POINTS * len(stage.metrics) // sum(len(other.metrics) for other in stages))
            steps, values = _line(stage, name, domain, points)
            if len(steps):
                axes.plot(steps, values, color=color, linewidth=1.5, label=label, marker="" if len(steps) > 1 else "o")
                label = ""  # once in the legend
    if name == "response_tokens":
        for stage in stages:
            limit = [(stage.first + line["step"], line.get("max_response_tokens", np.nan)) for line in stage.metrics]
            axes.plot(*zip(*limit, strict=True), color=MUTED, linewidth=1, linestyle=":")
    _mark(stages, axes)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_xlabel("step")
    if len(colors) > 1:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=5, frameon=False)


def _line(stage: StageCurves, name: str, domain: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values; metrics of a stage with one domain have no prefix."""
    key = name if stage.domains == (domain,) or not domain else f"{domain}/{name}"
    values = [(stage.first + line["step"], line[key]) for line in stage.metrics if key in line]
    if not values:
        return np.empty(0), np.empty(0)
    parts = np.array_split(np.array(values, dtype=float), min(points, len(values)))
    return np.array([part[:, 0].mean() for part in parts]), np.array([part[:, 1].mean() for part in parts])


def _mark(stages: Sequence[StageCurves], axes: Axes) -> None:
    """Stage names above the axes, interventions at the top inside them."""
    end = stages[-1].first + len(stages[-1].metrics)
    begun = [(stage.first, stage.name) for stage in stages] if len(stages) > 1 else []
    interventions = [(stage.first + change.step, change.title) for stage in stages for change in stage.interventions]
    for x, _ in begun:
        axes.axvline(x, color=MUTED, linewidth=0.7)
    if named := _with_room(begun, LABEL_ROOM * end):
        names = axes.secondary_xaxis("top")
        names.spines["top"].set_visible(False)
        names.set_xticks(*zip(*named, strict=True))
        names.tick_params(length=0, pad=1)
        for label in names.get_xticklabels():
            label.set(rotation=30, ha="left", rotation_mode="anchor", fontsize=9, color=INK)
    for x, _ in interventions:
        axes.axvline(x, color=MUTED, linewidth=0.7, linestyle="--")
    for x, title in _with_room(interventions, LABEL_ROOM * end):
        axes.annotate(
            title, (x, 1), xycoords=("data", "axes fraction"), xytext=(2, -2), textcoords="offset points", rotation=90,
            va="top", fontsize=9, color=MUTED,
        )  # fmt: skip


def _with_room(marks: Sequence[tuple[float, str]], room: float) -> list[tuple[float, str]]:
    """The marks whose label does not cover the one before."""
    kept: list[tuple[float, str]] = []
    for mark in marks:
        if not kept or mark[0] - kept[-1][0] >= room:
            kept.append(mark)
    return kept
