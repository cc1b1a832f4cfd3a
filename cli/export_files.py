"""The work behind `ratchet export`: one Parquet file from another, batch by batch."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from ratchet.data_curation.exports import EXPORTS, Export
from ratchet.infra.artifacts import ArtifactStore, disk_errors
from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import from_table
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.model import PromptFormat
from ratchet.infra.settings import load_settings
from ratchet.verifiers.domain import NotExpressible, domain_of

BATCH_ROWS = 1024


def export_files(
    console: Console, problems: str, format_: str, output: Path | None, recipe: str, data_source: str, home: str | None
) -> None:
    """Write `output`/train.parquet and say what was left out of it."""
    if format_ not in EXPORTS or output is None:
        raise RatchetError(f"Say --format ({', '.join(EXPORTS)}) and --output DIR.")
    source = _problems_file(problems, home)
    prompt = load_recipe(recipe, []).model.prompt if recipe else PromptFormat()
    target = output / "train.parquet"
    left_out, written = _write(source, target, EXPORTS[format_], prompt, data_source)
    rows = written.total()
    console.print(f"{rows:,} problems → {target}", soft_wrap=True, markup=False)
    for reason, count in left_out.most_common():
        console.print(f"left out {count:,}: {reason}", soft_wrap=True, markup=False)
    if format_ == "verl" and rows:
        functions = {data_source or domain_of(domain).verl_reward for domain in written}
        console.print(
            f"verl's reward functions for these: {', '.join(sorted(functions))} (--data-source). "
            "For Ratchet's own verdicts, point a custom reward function at `ratchet judge serve`.", soft_wrap=True,
        )  # fmt: skip


def _write(
    source: Path, target: Path, export_: Export, prompt: PromptFormat, data_source: str
) -> tuple[Counter[str], Counter[str]]:
    """Batch by batch, under another name until it is whole; returns how many were left out for each reason, and how
    many of each domain were written."""
    left_out, written = Counter[str](), Counter[str]()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with pq.ParquetFile(source) as file, pq.ParquetWriter(draft, export_.schema) as writer:
                for batch in file.iter_batches(batch_size=BATCH_ROWS):
                    rows = []
                    for problem in from_table(pa.Table.from_batches([batch])):
                        try:
                            rows.append(export_.convert(problem, written.total(), prompt, data_source))
                            written[problem.domain] += 1
                        except NotExpressible as reason:
                            left_out[str(reason)] += 1
                    writer.write_table(pa.Table.from_pylist(rows, schema=export_.schema))
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    return left_out, written


def _problems_file(problems: str, home: str | None) -> Path:
    path = Path(problems).expanduser()
    if path.is_dir():
        path = path / "kept.parquet"
    if not path.is_file():
        artifact = ArtifactStore(load_settings(home).artifacts).open(problems)
        path = artifact.kept
    try:
        columns = set(pq.read_schema(path).names)
    except (OSError, pa.ArrowException) as error:
        raise RatchetError(f"{path}: no Parquet file can be read there ({error}).") from error
    missing = {"problem_id", "domain", "prompt"} - columns
    if missing:
        raise RatchetError(
            f"{path}: not a data set of Ratchet's, it has no column {', '.join(sorted(missing))}. Curate it first "
            "(`ratchet curate math --input …`)."
        )
    return path
