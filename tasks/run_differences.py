"""Differences between two runs: in their recipes, in their steps, in their scores."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.infra.keys import flat
from ratchet.infra.store.artifacts import FILE_KIND, GIVEN_KINDS, Artifact
from ratchet.infra.tracking.run_record import RunRecord, RunStep

Facts = Sequence[tuple[str, Any, Any]]
"""Facts by name, with the value in each of the two runs; None where a run has none."""


@dataclass(frozen=True)
class Differences:
    """The differences between two runs."""

    recipes: Facts
    own: Mapping[str, Facts]
    """Differences of each changed step, by title: its own parameters, version and files; empty if only its inputs
    changed."""
    same_content: Sequence[str]
    """Changed steps whose content is the same in the end."""
    only: tuple[Sequence[str], Sequence[str]]
    """Steps of only one of the runs."""
    shared: Sequence[tuple[RunStep, RunStep]]


def differences(a: RunRecord, b: RunRecord) -> Differences:
    """Compare the recipes and the steps of two runs."""
    steps_a, steps_b = _by_title(a), _by_title(b)
    shared = {title: (step, steps_b[title]) for title, step in steps_a.items() if title in steps_b}
    changed = {title: (a.output, b.output) for title, (a, b) in shared.items() if a.output.key != b.output.key}
    return Differences(
        recipes=_different(flat(dict(a.recipe)), flat(dict(b.recipe))),
        own={title: _own_differences(*outputs) for title, outputs in changed.items()},
        same_content=[t for t, (a, b) in changed.items() if a.finished and b.finished and a.content() == b.content()],
        only=([t for t in steps_a if t not in steps_b], [t for t in steps_b if t not in steps_a]),
        shared=list(shared.values()),
    )


def _by_title(run: RunRecord) -> dict[str, RunStep]:
    """The steps of a run by title; of several outputs with one title, the later ones get a number."""
    steps, keys = dict[str, RunStep](), defaultdict[str, list[str]](list)
    for step in run.steps:
        if step.output.key not in (made := keys[step.title]):
            made.append(step.output.key)
        number = made.index(step.output.key) + 1
        steps[step.title if number == 1 else f"{step.title} ({number})"] = step
    return steps


def score_pairs(shared: Sequence[tuple[RunStep, RunStep]]) -> list[tuple[Artifact, Artifact]]:
    """The evaluations that both runs have finished."""
    outputs = [(a.output, b.output) for a, b in shared if a.output.kind == "evaluation"]
    return [(a, b) for a, b in outputs if a.finished and b.finished]


def _own_differences(a: Artifact, b: Artifact) -> Facts:
    if not (a.finished and b.finished):
        return [("finished", a.finished, b.finished)]
    return _different(dict(_own(a)), dict(_own(b)))


def _own(artifact: Artifact) -> Iterator[tuple[str, Any]]:
    manifest = artifact.manifest
    yield from flat(manifest.parameters).items()
    yield "version of the step", manifest.step_version
    yield from ((f"code of {module}", digest) for module, digest in manifest.own_code.items())
    for facts in manifest.inputs:
        if facts["kind"] in GIVEN_KINDS:
            yield f"{'sha256 of ' if facts['kind'] == FILE_KIND else ''}{facts['name']}", facts["key"]


def _different(a: Mapping[str, Any], b: Mapping[str, Any]) -> Facts:
    return [(name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]
