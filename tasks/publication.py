"""Prepare artifacts for publication: a data set or a model as a repository on the Hub, with its card."""

import json
import re
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from ratchet.infra.keys import flat
from ratchet.infra.pages import Document, Section, to_markdown
from ratchet.infra.recipe.training import Stage
from ratchet.infra.store.artifacts import GIVEN_KINDS, Artifact, ArtifactStore
from ratchet.verifiers.errors import RatchetError

Files = dict[str, Path | str]
"""The files of a repository by path: a file here, or a text."""
TRAIN = "data/train.parquet"
UNNAMED = "other"
"""The Hub's value for a license that nobody named."""


def repository(store: ArtifactStore, artifact: Artifact, license_: str) -> tuple[str, Files]:
    """The Hub's kind of repository (`dataset`, `model`), and its files. Raises RatchetError for any other artifact."""
    if artifact.kind == "checkpoint":
        weights = sorted(file for file in (artifact.path / "model").rglob("*") if file.is_file())
        files: Files = {str(file.relative_to(artifact.path / "model")): file for file in weights}
        return "model", {**files, "README.md": model_card(store, artifact, license_)}
    if artifact.kind != "problems":
        raise RatchetError(f"{artifact.ref} is neither problems nor a checkpoint, and cannot go to the Hub.")
    shown = [name for name in artifact.manifest.shown if name.startswith("figures/")]
    return "dataset", {
        TRAIN: artifact.kept,
        "README.md": data_card(store, artifact, license_),
        **{name: artifact.path / name for name in shown},
    }


def data_card(store: ArtifactStore, artifact: Artifact, license_: str) -> str:
    """The card that curation wrote; for a single step, its counts and origin."""
    from huggingface_hub import DatasetCard

    written = artifact.path / "card.md"
    if written.is_file():
        text = written.read_text(encoding="utf-8")
    else:
        counts = [{"rows": name, "count": count} for name, count in artifact.manifest.counts.items()]
        sections = [Section("Rows", table=counts), _made(store, artifact)]
        text = "---\nlanguage: [en]\n---\n\n" + to_markdown(Document(artifact.name, sections=sections))
    # Rejected rows are not published: they contain benchmark items.
    shown, removed = re.subn(r" `rejected.parquet` holds [^.]*\.", "", text)
    assert removed or "rejected.parquet" not in text, "the card's template says it in other words now"
    card = DatasetCard(shown)
    card.data.license = license_ or card.data.license or UNNAMED  # type: ignore
    return str(card)


def exported_card(card: str, title: str, usage: str, license_: str) -> str:
    """The README of an export: how to train with it, followed by the data set's own card (which may be "")."""
    from huggingface_hub import DatasetCard

    own = DatasetCard(card or "---\nlanguage: [en]\n---\n")
    own.data.license = license_ or own.data.license or UNNAMED  # type: ignore
    own.text = f"# {title}\n\n{usage}\n\n{own.text.strip()}\n"
    return str(own)


def model_card(store: ArtifactStore, artifact: Artifact, license_: str) -> str:
    """The card of a model: its origin, training and scores."""
    from huggingface_hub import EvalResult, ModelCardData

    from ratchet.tasks.report import summary_table

    evaluations = [candidate for candidate in store.all("evaluation/*") if artifact in store.parents(candidate)]
    results = [
        EvalResult("text-generation", name, name, "pass@1", scores["pass_at"]["1"]["value"])
        for evaluation in evaluations
        for name, scores in json.loads((evaluation.path / "scores.json").read_text())["benchmarks"].items()
        if "1" in scores["pass_at"]
    ]
    behind = [a for a in store.ancestors([artifact]) if a.kind not in GIVEN_KINDS]
    stages = [a for a in behind if a.kind == "checkpoint"]
    base = next((model["path"] for a in stages if (model := a.manifest.parameters.get("model"))), None)
    data = ModelCardData(
        license=license_ or UNNAMED, library_name="transformers", pipeline_tag="text-generation", language="en",
        tags=["reasoning", "reinforcement-learning", "verifiable-rewards"], model_name=artifact.name,
        base_model=base if base and not Path(base).is_absolute() else None, eval_results=results or None,
    )  # fmt: skip
    trained = [
        {"stage": a.name, "outcome": a.manifest.headline, "settings": _changed(a.manifest.parameters)} for a in stages
    ]
    problems = [
        {"data set": a.ref, "problems": a.manifest.counts["kept"]}
        for a in behind if a.kind == "problems" and a.manifest.step == "curated"
    ]  # fmt: skip
    document = Document(artifact.name, "A reasoning model, trained with verifiable rewards.", sections=[
        Section("Scores", table=summary_table(evaluations) if evaluations else ()),
        Section("Training", "In order.", trained),
        Section("Training data", table=problems),
        _made(store, artifact),
    ])  # fmt: skip
    return f"---\n{data.to_yaml()}\n---\n\n{to_markdown(document)}"


def _changed(parameters: dict[str, Any]) -> str:
    """A stage's settings that differ from the defaults."""
    fields = {name: field for name, field in Stage.model_fields.items() if not field.is_required()}
    defaults = {name: to_jsonable_python(f.get_default(call_default_factory=True)) for name, f in fields.items()}
    settings = {name: v for name, v in (parameters.get("stage") or {}).items() if v != defaults.get(name)}
    return ", ".join(f"{name} {value}" for name, value in flat(settings).items())


def _made(store: ArtifactStore, artifact: Artifact) -> Section:
    rows = []
    for a in store.ancestors([artifact]):
        maker = "given" if a.kind in GIVEN_KINDS else f"{a.manifest.step}, code {a.manifest.code}"
        rows.append({"artifact": a.ref, "made by": maker, "sha256": a.key})
    return Section("Where it came from", "Raw files first.", rows)
