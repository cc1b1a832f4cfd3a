"""The steps of curation: each function is one task whose output is one artifact."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation import funnel
from ratchet.data_curation.base.draft import DatasetResult, Draft
from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA, from_table
from ratchet.data_curation.curation_step import CurationStep, Rows, StepContext, accounted, curation_code, on_disk
from ratchet.data_curation.preview import preview_file
from ratchet.data_curation.raw_batches import Window
from ratchet.data_curation.read import has_columns, open_raw_file, read_files, read_problems
from ratchet.data_curation.readers.plain_formats import Columns
from ratchet.data_curation.readers.sources import held_out_splits, source_names
from ratchet.data_curation.settings.curation import Curation
from ratchet.data_curation.split import REJECTED_SCHEMA, Split
from ratchet.data_curation.steps import steps_of
from ratchet.infra.pages import to_html
from ratchet.infra.recipe.evaluation import CATALOG, benchmark_name, named_path
from ratchet.infra.store.artifacts import FILE_KIND, Artifact, Parameters
from ratchet.infra.store.manifest import DatasetManifest
from ratchet.tasks import run_context
from ratchet.tasks.domain_trial import DomainTrial
from ratchet.tasks.inputs import given_files
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import PlannedStep, RunContext
from ratchet.tasks.step import Step, record_isolation, run_step, write_splits
from ratchet.tasks.teacher import NO_TEACHER
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import NotGiven
from ratchet.verifiers.serving.local_pool import open_pool
from ratchet.verifiers.serving.pool import Pool
from ratchet.verifiers.workers import ordered_map

HELD_OUT = Step(run_context.HELD_OUT, 21, "problems")
NORMALIZE = Step("normalize", 26, "problems")
CURATED = Step("curated", 7, "problems")
PREVIEWS = "previews.json"


def raw_files(run: RunContext, domain: str, settings: Curation) -> list[Artifact]:
    """The raw files of a domain."""
    if not settings.inputs:
        raise NotGiven(
            f"curation.{domain}.inputs is empty in recipe {run.recipe.name}: give the raw files, e.g. "
            f"`ratchet curate {domain} --input FILE`, or --set 'curation.{domain}.inputs=[FILE, …]'."
        )
    files = given_files(run, settings.inputs)
    for file in files:
        if file.kind == FILE_KIND:  # unreadable files are reported before any work
            open_raw_file(file.path, domain, settings.columns)
    return files


def held_out(run: RunContext, domain: str, settings: Curation) -> list[Artifact]:
    """The held-out benchmarks, each as a data set."""
    shown: dict[Artifact, str] = {}
    for name in settings.benchmarks:
        files = given_files(run, [named_path(name)])
        known = benchmark_name(name) if benchmark_name(name) in CATALOG else ""
        for file in files:
            shown.setdefault(file, f"{known} {file.path.stem}" if known and len(files) > 1 else known)
    sources = source_names([file.path for file in shown])
    return [
        benchmark_problems(run, domain, [file], settings.columns, source=source, shown=shown[file])
        for file, source in zip(shown, sources, strict=True)
    ]


def benchmark_rows(benchmarks: Iterable[Artifact]) -> list[Path]:
    """The problems of benchmarks, and the rows that could not be read as problems."""
    return [file for artifact in benchmarks for file in (artifact.kept, artifact.rejected)]


def read_whole(benchmarks: Iterable[Artifact]) -> list[Artifact]:
    """Those of the benchmarks that have such rows: they count in the keys of steps that read `benchmark_rows`."""
    return [artifact for artifact in benchmarks if artifact.finished and artifact.manifest.counts["rejected"]]


def file_sources(files: Sequence[Artifact]) -> dict[str, list[str]]:
    """The sources of these files' rows, for a step's key. A generated file is in it by its name."""
    names = source_names([file.path for file in files])
    named = any(file.kind == FILE_KIND for file in files) or any("/" in name for name in names)
    return {"sources": names} if named else {}


def benchmark_problems(
    run: RunContext, domain: str, files: Sequence[Artifact], columns: Mapping[str, str], name: str = "",
    window: Window | None = None, source: str = "", shown: str = "",
) -> Artifact:  # fmt: skip
    """One benchmark as a data set, called `name` or like its file. The recipe's `columns` are used for files that have
    them. `source` distinguishes its items from those of another file with that name; `shown` replaces it in titles."""

    def make(draft: Draft[DatasetResult]) -> None:
        write_splits(draft, read_benchmark(domain, files, columns, window, source), max_rejected=1.0)
        warn_of_losses(run, draft)

    named, name = bool(name), name or files[0].path.name.split(".")[0]
    parameters = {"domain": domain, **({"window": [str(day) for day in window]} if window else {})}
    if columns:
        parameters["columns"] = dict(columns)
    source = source or ("" if named else source_names([files[0].path])[0])
    if source and source != name:
        name = source.replace("/", "-") if "/" in source else name
        parameters["source"] = source
    title = f"benchmark {name}" if named else f"held out {shown or (source or name).replace('_', ' ')}"
    return run_step(
        run, HELD_OUT, name, parameters=parameters, inputs=files, make=make, title=title, code=curation_code(domain)
    )


def read_benchmark(
    domain: str, files: Sequence[Artifact], columns: Mapping[str, str], window: Window | None = None, source: str = ""
) -> Iterator[Split]:
    """Read a benchmark's files as problems; `columns` are used for files that have them."""
    for file in files:
        mapped = columns if has_columns(file.path, columns) else None
        yield read_problems(file.path, domain, mapped, source, window, max_shortened=1)  # items are compared, not asked


def normalize(run: RunContext, domain: str, settings: Curation, raw: Sequence[Artifact]) -> Artifact:
    """Read the files, remove templates, and give each problem its content identity."""
    paths, columns = [file.path for file in raw], settings.columns
    parameters = {"domain": domain, **file_sources(raw), **({"columns": columns} if columns else {})}

    def work(draft: Draft[DatasetResult]) -> Iterable[Split]:
        _show_previews(run, draft, domain, paths, columns)
        for line in (*warnings(), *(domain_trial.warnings() if domain_trial else ())):
            run.reporter.warning(line.removeprefix("! "))
        each = partial(in_batches, run.reporter, run.recipe.workers)
        return read_files(paths, domain, columns, each, settings.advanced.max_shortened)

    def warnings() -> Iterator[str]:
        yield from _not_compared(run, domain, settings)
        for name in settings.inputs:
            if others := held_out_splits(name):
                yield (
                    f"! {name}: all files of a directory are read, {others[0].name} too. Name the others, as in "
                    f"{Path(name) / 'train*'}, if it is held out"
                )

    published = [path for path in paths if path.is_file()]  # others are not generated or fetched yet
    domain_trial = DomainTrial(domain, published[0], columns) if published else None

    def trial() -> Iterator[str]:
        for path, name in zip(published, source_names(published), strict=True):
            preview = preview_file(path, domain, columns, name)
            yield from (f"! {preview.source}: {line[2:]}" for line in preview.counts() if line.startswith("!"))
        yield from domain_trial.findings() if domain_trial else ()
        yield from warnings()

    return split_step(
        run, NORMALIZE, domain, settings, raw, parameters, work, code=curation_code(domain),
        check=domain_trial and domain_trial.check, trial=trial,
    )  # fmt: skip


def _not_compared(run: RunContext, domain: str, settings: Curation) -> Iterator[str]:
    """A warning of benchmarks that none of the recipe's own steps compares with, though the domain's usual ones do. A
    warm start's files are compared with them in any case."""

    def compares(curation: Curation) -> bool:
        return any("benchmarks" in step.needs for step in steps_of(domain, curation))

    start = run.recipe.training.warm_start
    if settings.benchmarks and not (start and start.files) and compares(Curation()) and not compares(settings):
        yield (
            f"! curation.{domain}.benchmarks are given, and no step compares with them: add `decontaminate` to "
            f"curation.{domain}.steps"
        )


def _show_previews(
    run: RunContext, draft: Draft[DatasetResult], domain: str, paths: Sequence[Path], columns: Columns
) -> None:
    """Show how the rows of each source are read, in the terminal and for the page of the curated set."""
    previews = [preview_file(p, domain, columns, name) for p, name in zip(paths, source_names(paths), strict=True)]
    (draft.path / PREVIEWS).write_text(json.dumps([preview.as_json() for preview in previews], ensure_ascii=False))
    reporter = run.reporter
    for preview in previews:
        for line in preview.lines():
            (reporter.warning if line.startswith("!") else reporter.note)(line.removeprefix("! "))


def run_curation_step(
    run: RunContext, domain: str, settings: Curation, step: CurationStep, problems: Artifact,
    held_out: Sequence[Artifact] = (), attempts: Artifact | None = None,
) -> Artifact:  # fmt: skip
    """Run one step of the domain's list: its kept and rejected rows become an artifact."""
    recipe = run.recipe
    benchmarks = held_out if "benchmarks" in step.needs else ()
    answers = attempts if "attempts" in step.needs else None
    context = StepContext(
        domain, settings, recipe.seed, recipe.verification.math,
        benchmarks=benchmark_rows(benchmarks), attempts=answers and answers.kept,
        each=partial(in_batches, run.reporter, recipe.workers),
    )  # fmt: skip
    step.check(context)

    def work(draft: Draft[DatasetResult]) -> Iterable[Split]:
        def open_step_pool(workers: int | None = None, local: bool = False, runs_programs: bool = False) -> Pool:
            if runs_programs:
                record_isolation(draft, recipe.verification, recipe.training.reward_servers, here=local)
            servers = () if local else recipe.training.reward_servers
            return open_pool(servers, workers=workers, settings=recipe.verification.settings())

        in_run = replace(
            context, folder=draft.path, result=draft.result, open_pool=open_step_pool, warning=run.reporter.warning,
            progress=lambda count, total: run.reporter.progress(count, total, {}),
        )  # fmt: skip
        rows = Rows(problems.kept)
        return accounted(step, rows, step.run(rows, in_run))

    kind = Step(step.name, step.version, "problems", step.resumable)
    inputs = [problems, *benchmarks, *([answers] if answers else [])]
    return split_step(
        run, kind, domain, settings, inputs, step.parameters(context), work, code=step.code(context),
        whole=read_whole(benchmarks),
    )  # fmt: skip


def curated(run: RunContext, domain: str, steps: Sequence[Artifact], missing: Sequence[str]) -> Artifact:
    """Make the curated data set: the last step's rows, all rejects, the funnel, the page and the data card."""

    def make(draft: Draft[DatasetResult]) -> None:
        from ratchet.tasks import curation_report  # imports matplotlib, which plans do without

        rejects = (batch for step in steps for batch in Rows(step.rejected).batches())
        kept = on_disk(PROBLEM_SCHEMA, Rows(steps[-1].kept).batches(), draft.path / "kept.arrow")
        rejected = on_disk(REJECTED_SCHEMA, rejects, draft.path / "rejected.arrow")
        rows_in = int(steps[0].manifest.counts["rows_in"])
        draft.write_dataset(kept, rejected, rows_in)
        refused = _refused_numbers(run, domain, kept)
        draft.result.metrics = {"rows_in": rows_in, "rows_kept": len(kept), "refused_numbers": refused}
        manifests = [DatasetManifest.of(step) for step in steps]
        table = funnel.funnel([manifest.summary or {} for manifest in manifests])
        pq.write_table(table, draft.path / "funnel.parquet")
        reasons = {name: NO_TEACHER.format(domain=domain) for name in missing}
        file = steps[0].path / PREVIEWS
        previews = json.loads(file.read_text()) if file.exists() else []
        document = curation_report.document(domain, table, kept, rejected, manifests, reasons, previews)
        (draft.path / "report.html").write_text(to_html(document))
        (draft.path / "card.md").write_text(curation_report.card(document, domain, len(kept)))
        for name, image in document.images.items():
            (draft.path / name).parent.mkdir(exist_ok=True)
            (draft.path / name).write_bytes(image)
        draft.result.shown = ["report.html", "card.md", *document.images]

    parameters = {"domain": domain, "not_done": list(missing)}
    name, title = f"{domain}-curated", f"curated {domain}"
    return run_step(run, CURATED, name, parameters=parameters, inputs=steps, make=make, title=title, whole=steps)


def curated_files(plan: Iterable[PlannedStep]) -> dict[str, Path]:
    """The files of a plan's curated problems that exist, by domain."""
    outputs = [step.output for step in plan if step.name == CURATED.name]
    return {each.name.removesuffix("-curated"): each.kept for each in outputs if each.kept.is_file()}


def _refused_numbers(run: RunContext, domain: str, kept: pa.Table) -> int:
    """Count references with a number that alone would be a wrong answer, and warn of them."""
    of = domain_of(domain).refused_number
    answers = [p.answer for batch in kept.to_batches() for p in from_table(pa.Table.from_batches([batch])) if of(p)]
    if answers:
        run.reporter.warning(
            f"{domain}: {len(answers):,} of {len(kept):,} references are a number and words, e.g. {answers[0]!r}, and "
            "the number alone is no right answer. Correct these references."
        )
    return len(answers)


def in_batches(
    reporter: ProgressReporter, workers: int, judge: Callable[[Any], Split], batches: Iterable[Any],
    rows: int | None = None,
) -> Iterator[Split]:  # fmt: skip
    """Yield the splits of all batches, made by several processes (0: one per core), and report progress."""
    rows_judged = 0
    for split in ordered_map(judge, batches, workers):
        yield split
        rows_judged += split.summary["rows_in"]
        reporter.progress(rows_judged, rows, {})


def split_step(
    run: RunContext, step: Step, domain: str, settings: Curation, inputs: Sequence[Artifact], parameters: Parameters,
    work: Callable[[Draft[DatasetResult]], Iterable[Split]], code: Iterable[str] = (),
    check: Callable[[], None] | None = None, trial: Callable[[], Iterable[str]] | None = None,
    whole: Sequence[Artifact] = (),
) -> Artifact:  # fmt: skip
    """Run a step of a domain's curation. `work` gives the splits to write; a `summary` that it leaves in the draft's
    result is added to the counts."""

    def make(draft: Draft[DatasetResult]) -> None:
        write_splits(draft, work(draft), settings.advanced.max_rejected)
        summary = draft.result.summary or {}
        if test := summary.get("self_test"):
            draft.result.metrics |= {"self_test_recall": test["recall"], "unprotected": len(test["unprotected"])}
        if sharing := summary.get("kept_sharing"):
            draft.result.metrics |= {"kept_sharing": sharing}
            draft.result.headline = f"{sharing:,} kept rows share an n-gram with a benchmark item"
        warn_of_losses(run, draft)

    title = f"{step.name.replace('_', ' ')} {domain}"
    return run_step(
        run, step, f"{domain}-{step.name}", parameters=parameters, inputs=inputs, make=make, title=title, code=code,
        check=check, trial=trial, whole=whole,
    )  # fmt: skip


def warn_of_losses(run: RunContext, draft: Draft[DatasetResult]) -> None:
    """Warn of files of which more than half could not be read: wrong columns, or an unknown layout."""
    summary = draft.result.summary or {}
    lost = {file: n for file, n in summary.get("unreadable", {}).items() if n > summary["files"][file] / 2}
    for file, count in lost.items():
        example = summary["unreadable_first"][file]
        run.reporter.warning(
            f"{file}: {count:,} of {summary['files'][file]:,} rows cannot be read as problems, e.g. {example}. Correct "
            "the file, or map its columns with `columns` in the recipe."
        )
