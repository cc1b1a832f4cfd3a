"""One picture of a run: what it read, what each step kept, how training went on, and which scores were reached."""

import textwrap
from collections.abc import Callable, Iterable, Sequence

from ratchet.infra.artifacts import GIVEN_KINDS, Artifact
from ratchet.infra.pages.flow_chart import CHARACTERS, Box, flow_chart

MOST_LINES = 4
CURATION = ("problems", "attempts")
TRAINING = ("traces", "checkpoint", "pass_rates")

Made = tuple[str, Artifact, Sequence[Artifact]]
"""A step: its title, or nothing where what it made says it; what it made, or was to make; what it read."""


def lineage_picture(steps: Iterable[Made], link: Callable[[Artifact], str], label: str) -> str:
    """An SVG; `link` says where a click on an artifact leads. A step comes after those that it reads."""
    boxes = [_box(title or title_of(made), made, read, link(made)) for title, made, read in steps]
    return flow_chart(sorted(boxes, key=lambda box: BANDS.index(box.band)), label)


BANDS = ("Raw", "Curation", "Training and evaluation")


def title_of(artifact: Artifact) -> str:
    """`rules math`, of what a step made."""
    step = artifact.manifest["step"]
    return f"{step} {artifact.name.removesuffix(f'-{step}')}".replace("_", " ")


def _box(title: str, made: Artifact, read: Sequence[Artifact], link: str) -> Box:
    band, lane = place(made)
    counts = made.manifest["counts"] if made.finished else {}
    told = made.summary if made.finished else "not made"
    lines = [line for part in told.split("   ") for line in textwrap.wrap(part, CHARACTERS)]
    files = [artifact for artifact in read if artifact.kind in (*GIVEN_KINDS, "raw")]
    lines[MOST_LINES:] = ["…"] if len(lines) > MOST_LINES else []
    lines += [_file(file) for file in files[:2]] + ([f"and {len(files) - 2} files more"] if len(files) > 2 else [])
    hints = [made.ref, told, *(f"{file.path} sha256 {sha256_of(file)}" for file in files[:20])]
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
    """Of a file that was given or generated; a model directory has one over its files."""
    if file.kind == "raw" and file.path.is_file():
        return file.manifest["files"][file.path.name]["sha256"]
    return file.key
