"""The lineage of a run as a table: its inputs, what each step kept, training, and scores."""

from collections.abc import Callable, Iterable, Sequence

from ratchet.infra.pages import unmarked
from ratchet.infra.store.artifacts import GIVEN_KINDS, Artifact

TRAINING = ("traces", "checkpoint", "pass_rates")

Step = tuple[str, Artifact, Sequence[Artifact]]
"""The title of a step (empty: from its output), its output, and its inputs."""


def lineage_table(steps: Iterable[Step], link: Callable[[Artifact], str]) -> list[dict[str, str]]:
    """A table with a row for each step, by part of the run; `link` gives the address of an artifact."""
    steps = [(unmarked(title or title_of(output)), output, inputs) for title, output, inputs in steps]
    titles = {output.key: title for title, output, _ in steps}
    parts = list(dict.fromkeys(part_of(output) for _, output, _ in steps))
    rows = [
        {
            "part": part_of(output),
            "step": f"[{title}]({link(output)})",
            "result": unmarked(output.summary),
            "made from": ", ".join(_named(artifact, titles) for artifact in inputs),
        }
        for title, output, inputs in steps
    ]
    return sorted(rows, key=lambda row: parts.index(row["part"]))


def title_of(artifact: Artifact) -> str:
    """A title from a step's output, such as `rules math`."""
    step = artifact.manifest.step
    return f"{step} {artifact.name.removesuffix(f'-{step}')}".replace("_", " ")


def part_of(output: Artifact) -> str:
    """The part of a run that a step belongs to; for curation, the domain."""
    if output.kind == "raw":
        return "Raw"
    if output.kind in ("problems", "attempts"):
        domain = output.finished and output.manifest.parameters.get("domain")
        return domain or output.name.rsplit("-", 1)[0]
    return "Training" if output.kind in TRAINING else "Evaluation"


def _named(artifact: Artifact, titles: dict[str, str]) -> str:
    if artifact.kind in (*GIVEN_KINDS, "raw"):
        return f"{unmarked(artifact.path.name)} `{sha256_of(artifact)[:8]}`"
    return titles.get(artifact.key, artifact.ref)


def sha256_of(file: Artifact) -> str:
    """The hash of a given or generated file, or of a model directory's files."""
    if file.kind == "raw" and file.path.is_file():
        return file.manifest.files[file.path.name].sha256
    return file.key
