"""Curation, step by step: each function is one task whose output is one artifact."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation import decontamination, deduplication, funnel, rules, validation
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.readers import Window, has_columns, open_raw_file, read_files, read_problems, source_names
from ratchet.data_curation.split import REJECTED_SCHEMA, Split
from ratchet.infra.artifacts import FILE_KIND, REJECTED, Artifact, Draft
from ratchet.infra.errors import NotGiven, RatchetError
from ratchet.infra.pages import to_html
from ratchet.infra.problems import PROBLEM_SCHEMA
from ratchet.infra.recipe.curation import Decontamination
from ratchet.infra.recipe.evaluation import named_path
from ratchet.infra.recipe.recipe import Recipe
from ratchet.tasks import pipeline_run
from ratchet.tasks.dask_runner import check_runner
from ratchet.tasks.inputs import given_files
from ratchet.tasks.pipeline_run import active_run
from ratchet.tasks.row_steps import RowWise, in_batches, judge_rows, judge_table, most_rejected, row_batches, split_step
from ratchet.tasks.step import Step, run_step, write_splits
from ratchet.tasks.teacher import NO_TEACHER
from ratchet.verifiers.serving.local_pool import VerifierPool
from ratchet.verifiers.submission import JudgeSettings

HELD_OUT = Step(pipeline_run.HELD_OUT, 8, "problems")
NORMALISE = Step("normalise", 9, "problems")
RULES = Step("rules", 6, "problems")
DECONTAMINATE = Step("decontaminate", 5, "problems")
DEDUPLICATE = Step("deduplicate", 6, "problems")
VALIDATE_TESTS = Step("validate_tests", 6, "problems", resumable=True)
CURATED = Step("curated", 4, "problems")


def raw_files(recipe: Recipe, domain: str) -> list[Artifact]:
    """The raw files of a domain."""
    if not recipe.curation_of(domain).inputs:
        raise NotGiven(
            f"curation.{domain}.inputs is empty in recipe {recipe.name}: give the raw files, e.g. "
            f"`ratchet curate {domain} --input FILE`, or --set 'curation.{domain}.inputs=[FILE, …]'."
        )
    files = given_files(recipe, recipe.curation_of(domain).inputs)
    for file in files:
        if file.kind == FILE_KIND:  # what cannot be read is told before any work
            open_raw_file(file.path, domain, recipe.curation_of(domain).columns)
    return files


def held_out(recipe: Recipe, domain: str) -> list[Artifact]:
    """The benchmarks that nothing kept may be contaminated with, each as a data set."""
    files = given_files(recipe, [named_path(name) for name in recipe.curation_of(domain).benchmarks])
    names = source_names([file.path for file in files])
    columns = recipe.curation_of(domain).columns
    return [
        benchmark_problems(domain, [file], columns, source=source) for file, source in zip(files, names, strict=True)
    ]


def benchmark_problems(
    domain: str, files: Sequence[Artifact], columns: Mapping[str, str], name: str = "", window: Window | None = None,
    source: str = "",
) -> Artifact:  # fmt: skip
    """One benchmark as a data set, called `name` or as its file is. `columns` are the recipe's, for a file that has
    them: one in a published layout needs none. `source` tells its items from those of another file of that name."""

    def make(draft: Draft) -> None:
        splits = (
            read_problems(file.path, domain, columns if has_columns(file.path, columns) else None, source, window)
            for file in files
        )
        write_splits(draft, splits, max_rejected=1.0)
        warn_of_losses(draft)

    name = name or files[0].path.name.split(".")[0]
    parameters = {"domain": domain, **({"window": [str(day) for day in window]} if window else {})}
    if columns:
        parameters["columns"] = dict(columns)
    if "/" in source:
        name = source.replace("/", "-")
        parameters["source"] = source
    title = f"held out {(source or name).replace('_', ' ')}"
    return run_step(HELD_OUT, name, parameters=parameters, inputs=files, make=make, title=title)


def normalise(recipe: Recipe, domain: str, raw: Sequence[Artifact]) -> Artifact:
    """Read the files by what they contain, strip templates, and give each problem its content identity."""
    settings = recipe.curation_of(domain)

    names = source_names([file.path for file in raw])
    named = {"sources": names} if any("/" in name for name in names) else {}  # else the files' own names say all
    named |= {"columns": settings.columns} if settings.columns else {}

    def make(draft: Draft) -> None:
        each = partial(in_batches, recipe, NORMALISE, domain)
        write_splits(
            draft, read_files([file.path for file in raw], domain, settings.columns, each), settings.max_rejected
        )
        warn_of_losses(draft)

    return split_step(NORMALISE, domain, raw, {"domain": domain, **named}, make, lambda: check_runner(recipe.runner))


def warn_of_losses(draft: Draft) -> None:
    """Say so where more than half of a file could not be read: the wrong columns, or a layout that is not known."""
    summary = draft.extra["summary"]
    lost = {file: n for file, n in summary.get("unreadable", {}).items() if n > summary["files"][file] / 2}
    if not lost:
        return
    rejected = pq.read_table(draft.path / REJECTED, columns=["rule", "source", "evidence"])
    malformed = rejected.filter(pc.field("rule") == "malformed")
    for file, count in lost.items():
        sources = zip(malformed["source"], malformed["evidence"], strict=True)
        example = next(str(e) for s, e in sources if file.startswith(str(s)) and json.loads(str(e))["file"] in file)
        active_run().watcher.warning(
            f"{file}: {count:,} of {summary['files'][file]:,} rows cannot be read as problems, e.g. {example}. "
            "`columns` in the recipe says which column holds what."
        )


def filter_by_rules(recipe: Recipe, domain: str, problems: Artifact) -> Artifact:
    settings = recipe.curation_of(domain)
    rules.applied(plan_of(domain).rules, settings.rules)  # a wrong name is told before any work
    work = partial(rules.filter_by_rules, rules=plan_of(domain).rules, limits=settings.rules)
    return judge_rows(RULES, recipe, domain, problems, settings.rules, lambda: (work, {}))


def decontaminate(recipe: Recipe, domain: str, problems: Artifact, benchmarks: Sequence[Artifact]) -> Artifact:
    settings = decontamination_settings(recipe, domain)

    def prepare() -> tuple[RowWise, dict[str, Any]]:
        items = pa.concat_tables([pq.read_table(artifact.kept) for artifact in benchmarks])
        decontaminator = decontamination.Decontaminator(items, settings)
        return decontaminator.split, decontaminator.facts()

    if not benchmarks:
        raise RatchetError(
            f"curation.{domain}.benchmarks is empty: give the held-out files to decontaminate against, "
            "e.g. --benchmark math500.json."
        )
    return judge_rows(DECONTAMINATE, recipe, domain, problems, settings, prepare, benchmarks)


def decontamination_settings(recipe: Recipe, domain: str) -> Decontamination:
    """The recipe's, with the domain's n-gram where it names none."""
    settings = recipe.curation_of(domain).decontaminate
    return settings.model_copy(update={"ngram": settings.ngram or plan_of(domain).ngram})


def deduplicate(recipe: Recipe, domain: str, problems: Artifact) -> Artifact:
    settings = recipe.curation_of(domain).deduplicate

    def make(draft: Draft) -> None:
        with _on_disk(PROBLEM_SCHEMA, row_batches(problems.kept), draft.path / "rows.arrow") as table:
            verdicts, facts = deduplication.judge(table, settings)
            write_splits(draft, deduplication.splits(table, verdicts), most_rejected(recipe, domain))
        draft.extra["summary"] |= facts

    return split_step(DEDUPLICATE, domain, [problems], settings, make)


@contextmanager
def _on_disk(schema: pa.Schema, batches: Iterable[pa.Table], file: Path) -> Iterator[pa.Table]:
    """All rows as one table that lies in `file` and not in memory; the file is gone after."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_table(batch)
    with pa.memory_map(str(file)) as source:
        yield pa.ipc.open_file(source).read_all()
    file.unlink()


def validate_tests(recipe: Recipe, domain: str, problems: Artifact) -> Artifact:
    """Golden solutions must pass their tests, and the tests must notice faults: solutions run in the sandbox."""
    settings = recipe.curation_of(domain).validation

    def apply(table: pa.Table, draft: Draft) -> Split:
        watcher, journal = active_run().watcher, draft.path / "journal.jsonl"  # left in the draft by a killed run
        with VerifierPool(settings=JudgeSettings.of(recipe.verification)) as pool:
            split = validation.validate_tests(
                table, settings, pool, progress=lambda done, total: watcher.progress(done, total, {}), journal=journal
            )
        journal.unlink(missing_ok=True)
        return split

    return judge_table(VALIDATE_TESTS, recipe, domain, problems, settings, apply, runs_code=True, here=True)


def curated(recipe: Recipe, domain: str, steps: Sequence[Artifact], missing: Sequence[str]) -> Artifact:
    """The curated data set: the last step's rows, all rejects, the funnel, the page and the data card."""

    def make(draft: Draft) -> None:
        rejects = (batch for step in steps for batch in row_batches(step.rejected))
        with (
            _on_disk(PROBLEM_SCHEMA, row_batches(steps[-1].kept), draft.path / "kept.arrow") as kept,
            _on_disk(REJECTED_SCHEMA, rejects, draft.path / "rejected.arrow") as rejected,
        ):
            draft.write_dataset(kept, rejected, _rows_in(steps[0]))
            describe(draft, kept, rejected)

    def describe(draft: Draft, kept: pa.Table, rejected: pa.Table) -> None:
        from ratchet.tasks import curation_report  # draws: what only plans does without

        table = funnel.funnel([step.manifest["summary"] for step in steps])
        pq.write_table(table, draft.path / "funnel.parquet")
        reasons = {name: NO_TEACHER.format(domain=domain) for name in missing}
        draft.extra["metrics"] = {"rows_in": _rows_in(steps[0]), "rows_kept": len(kept)}
        manifests = [step.manifest for step in steps]
        document = curation_report.document(domain, table, kept, rejected, manifests, reasons)
        (draft.path / "report.html").write_text(to_html(document))
        (draft.path / "card.md").write_text(curation_report.card(document, domain, len(kept)))
        for name, image in document.images.items():
            (draft.path / name).parent.mkdir(exist_ok=True)
            (draft.path / name).write_bytes(image)
        draft.extra["shown"] = ["report.html", "card.md", *document.images]

    parameters = {"domain": domain, "not_done": list(missing)}
    name, title = f"{domain}-curated", f"curated {domain}"
    return run_step(CURATED, name, parameters=parameters, inputs=steps, make=make, title=title, whole=steps)


def _rows_in(first: Artifact) -> int:
    return int(first.manifest["counts"]["rows_in"])
