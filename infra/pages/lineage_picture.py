"""One picture of a run: its inputs, the rows that each step kept, training, and scores."""

import textwrap
from collections.abc import Callable, Iterable, Sequence

from ratchet.infra.pages.flow_chart import CHARACTERS, Box, flow_chart
from ratchet.infra.store.artifacts import GIVEN_KINDS, Artifact

MOST_LINES = 4
CURATION = ("problems", "attempts")
TRAINING = ("traces", "checkpoint", "pass_rates")

Made = tuple[str, Artifact, Sequence[Artifact]]
"""A step: its title (empty: from its output), its output, made or not, and its inputs."""


def lineage_picture(steps: Iterable[Made], link: Callable[[Artifact], str], label: str) -> str:
    """An SVG; `link` gives the target of a click on an artifact. A step comes after its inputs."""
    boxes = [_box(title or title_of(made), made, read, link(made)) for title, made, read in steps]
    return flow_chart(sorted(boxes, key=lambda box: BANDS.index(box.band)), label)


BANDS = ("Raw", "Curation", "Training and evaluation")


def title_of(artifact: Artifact) -> str:
    """`rules math`, from a step's output."""
    step = artifact.manifest["step"]
    return f"{step} {artifact.name.removesuffix(f'-{step}')}".replace("_", " ")


def _box(title: str, made: Artifact, read: Sequence[Artifact], link: str) -> Box:
    band, lane = place(made)
    counts = made.manifest["counts"] if made.finished else {}
    summary = made.summary if made.finished else "not made"
    lines = [line for part in summary.split("   ") for line in textwrap.wrap(part, CHARACTERS)]
    files = [artifact for artifact in read if artifact.kind in (*GIVEN_KINDS, "raw")]
    lines[MOST_LINES:] = ["…"] if len(lines) > MOST_LINES else []
    lines += [_file(file) for file in files[:2]] + ([f"and {len(files) - 2} files more"] if len(files) > 2 else [])
    hints = [made.ref, summary, *(f"{file.path} sha256 {sha256_of(file)}" for file in files[:20])]
    share = counts["kept"] / counts["rows_in"] if counts.get("rows_in") and "kept" in counts else None
    parents = [artifact.key for artifact in read]
    return Box(made.key, title, lines, band, lane, parents, link, "\n".join(hints), share, not made.finished)


def place(made: Artifact) -> tuple[str, str]:
    """The band of the picture, and the lane in it."""
    if made.kind == "raw":
        return BANDS[0], ""
    if made.kind in CURATION:
        domain = made.finished and made.manifest["parameters"].get("domain")
        return BANDS[1], domain or made.name.rsplit("-", 1)[0]
    return BANDS[2], "Training" if made.kind in TRAINING else "Evaluation"


def _file(file: Artifact) -> str:
    return f"{file.path.name[: CHARACTERS - 12]} {sha256_of(file)[:8]}"


def sha256_of(file: Artifact) -> str:
    """Of a given or generated file, or of a model directory's files."""
    if file.kind == "raw" and file.path.is_file():
        return file.manifest["files"][file.path.name]["sha256"]
    return file.key
