"""Traces for the supervised warm start: a teacher's answers, or the user's files."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import KEPT, REJECTED, Draft
from ratchet.data_curation.base.problem_table import from_table, to_table
from ratchet.data_curation.base.prompts import PromptFormat, user_message, with_templates
from ratchet.data_curation.base.protocol import derive_seed
from ratchet.data_curation.curation_step import StepContext
from ratchet.data_curation.decontamination.problems import Decontaminator, with_ngram
from ratchet.data_curation.readers.sources import source_names
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.split import REJECTED_SCHEMA
from ratchet.data_curation.trace_files import Trace, check_columns, problem_rows, read_traces
from ratchet.infra.recipe.training import WarmStart
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.manifest import PromptComparison, TracesResult
from ratchet.tasks.curation import benchmark_rows, file_sources, held_out, read_whole
from ratchet.tasks.inputs import given_files
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, run_step
from ratchet.tasks.teacher import TeacherAttempts, teacher_code, teacher_seed
from ratchet.training.curriculum import allot
from ratchet.verifiers.domains import code_of
from ratchet.verifiers.errors import RatchetError

TEACHER_TRACES = Step("teacher_traces", 12, "traces")
OWN_TRACES = Step("own_traces", 17, "traces")
ENOUGH = 0.9
"""Part of a domain's share of own traces below which a run warns."""
SCHEMA = pa.schema([(name, pa.string()) for name in ("problem_id", "domain", "prompt", "response")])
"""Columns of a teacher's traces."""


def warm_start_traces(run: RunContext, problems: Mapping[str, Artifact]) -> Artifact:
    """The warm start's traces; `problems` are the curated ones of each domain."""
    start = run.recipe.training.warm_start
    assert start is not None
    if unknown := start.mix.keys() - problems.keys():
        raise RatchetError(
            f"training.warm_start.mix: {', '.join(sorted(unknown))}: the recipe {run.recipe.name} has the domains "
            f"{', '.join(problems)}."
        )
    return own_traces(run, start, list(problems)) if start.files else teacher_traces(run, start, problems)


def own_traces(run: RunContext, start: WarmStart, domains: list[str]) -> Artifact:
    """The rows of the recipe's trace files as (prompt, response) pairs. Rows that cannot be read, or that share text
    with a held-out item of one of `domains`, are rejected with the reason.

    Columns: problem_id, domain, source, source_id, prompt (the user turn), response. Raises RatchetError for an
    unusable file, and when no row is left.
    """
    recipe, prompt = run.recipe, run.recipe.model.prompt
    named = _files_by_domain(recipe.name, start, domains)
    given = [(file, domain) for domain, names in named.items() for file in given_files(run, names)]
    files, of_files = [file for file, _ in given], [domain for _, domain in given]
    sources = source_names([file.path for file in files])
    asked = domains if "domain" in start.columns else [*named]
    benchmarks = {d: held_out(run, d, recipe.curation_of(d)) for d in domains}
    settings = {d: with_ngram(recipe.curation_of(d).decontaminate, d) for d, items in benchmarks.items() if items}

    def make(draft: Draft[TracesResult]) -> None:
        contexts = {d: StepContext(d, benchmarks=benchmark_rows(benchmarks[d])) for d in settings}
        protected = [(contexts[d].items(), rules) for d, rules in settings.items()]
        traces: list[Trace] = []
        rejected: list[dict[str, Any]] = []
        for file, source, domain in zip(files, sources, of_files, strict=True):
            read, aside = read_traces(
                file.path, source, domain, lambda problem: user_message(problem, prompt), start.columns, domains
            )
            traces += read
            rejected += aside
        if start.template == "recipe":
            traces = [replace(trace, prompt=_as_asked(prompt, trace)) for trace in traces]
        traces, contaminated = without_held_out(traces, protected)
        rejected += contaminated
        if not traces:
            raise RatchetError("training.warm_start.files: every trace contains an item of a benchmark.")
        chosen = _chosen(start, traces, Random(derive_seed(recipe.seed, "traces")))
        _check_shares(start, chosen, run.reporter)
        rows = [
            {name: getattr(trace.problem, name) for name in ("problem_id", "domain", "source", "source_id")}
            | {"prompt": trace.prompt, "response": trace.response}
            for trace in chosen
        ]
        pq.write_table(pa.Table.from_pylist(rows), draft.path / KEPT)
        pq.write_table(pa.Table.from_pylist(rejected, schema=REJECTED_SCHEMA), draft.path / REJECTED)
        draft.counts = {"traces": len(chosen), "rejected": len(rejected), "left_over": len(traces) - len(chosen)}
        draft.result.rejected = dict(Counter(row["rule"] for row in rejected))
        draft.result.headline = f"{len(chosen):,} of {len(traces):,} traces, {len(rejected):,} set aside"
        draft.result.prompts = _compared_prompts(prompt, chosen, run.reporter)

    parameters = {
        **file_sources(files),
        "columns": start.columns,
        **({"domain": of_files[0]} if len(named) == 1 else {"domains": of_files}),
        **({"mix": start.mix} if start.mix else {}),
        "traces": start.traces,
        "prompt": with_templates(prompt, asked),
        "decontaminate": settings,
        "seed": recipe.seed,
        **({"template": start.template} if start.template != "as_written" else {}),
    }

    def check() -> None:
        for file, domain in zip(files, of_files, strict=True):
            if run.planning and not file.path.exists():  # it is generated or downloaded first
                continue
            try:
                check_columns(file.path, domain, start.columns)
            except RatchetError as error:
                raise RatchetError(f"training.warm_start.files: {error} Its mapping is warm_start.columns.") from error

    compared = [artifact for d in settings for artifact in benchmarks[d]]
    return run_step(
        run, OWN_TRACES, "warm-start", parameters=parameters, inputs=[*files, *compared], make=make,
        title="own traces", check=check, whole=read_whole(compared), code=code_of(asked),
    )  # fmt: skip


def _files_by_domain(recipe: str, start: WarmStart, domains: Sequence[str]) -> Mapping[str, Sequence[str]]:
    if isinstance(start.files, Mapping):
        if unknown := start.files.keys() - {*domains}:
            raise RatchetError(
                f"training.warm_start.files: {', '.join(sorted(unknown))}: the recipe {recipe} has the domains "
                f"{', '.join(domains)}."
            )
        return start.files
    domain = start.domain or (domains[0] if len(domains) == 1 or "domain" in start.columns else None)
    if domain is None:
        raise RatchetError(
            f"training.warm_start.files: the recipe {recipe} has the domains {', '.join(domains)}. Name each "
            "domain's files, as in `files: {math: [FILE]}`, or the column with each row's domain, as in "
            "`columns: {domain: COLUMN}`."
        )
    return {domain: start.files}


def _chosen(start: WarmStart, traces: Sequence[Trace], rng: Random) -> list[Trace]:
    """Choose at most `start.traces` traces at random, by the shares of `start.mix` if there are any, in their order."""
    if not start.mix:
        numbers = rng.sample(range(len(traces)), min(start.traces, len(traces)))
    else:
        numbers = list[int]()
        for domain, wanted in allot(start.traces, start.mix, least=0).items():
            there = [n for n, trace in enumerate(traces) if trace.problem.domain == domain]
            numbers += rng.sample(there, min(wanted, len(there)))
    return [traces[n] for n in sorted(numbers)]


def _check_shares(start: WarmStart, chosen: Sequence[Trace], reporter: ProgressReporter) -> None:
    """Warn if the files have too few traces of a domain for its share of `start.mix`. Raises RatchetError if they have
    none of any."""
    if not chosen:
        raise RatchetError(f"training.warm_start.mix: the files have no trace of {', '.join(start.mix)}.")
    there = Counter(trace.problem.domain for trace in chosen)
    wanted = allot(len(chosen), start.mix, least=0) if start.mix else {}
    if short := [f"{there[d]:,} of {d}, not {n:,}" for d, n in wanted.items() if there[d] < ENOUGH * n]:
        reporter.warning(f"warm start: too few traces for warm_start.mix: of {len(chosen):,} traces {', '.join(short)}")


def _compared_prompts(prompt: PromptFormat, traces: Sequence[Trace], reporter: ProgressReporter) -> PromptComparison:
    """Count the user turns that are not those of training and evaluation, and warn of them; with the first of them, or
    the first of all, in both wordings."""
    pairs = [(trace.prompt.strip(), _as_asked(prompt, trace).strip()) for trace in traces]
    different = [pair for pair in pairs if pair[0] != pair[1]]
    (own, asked), *_ = different or pairs
    if different:
        reporter.warning(
            f"warm start: {len(different):,} of {len(pairs):,} user turns are not worded as in training and "
            f"evaluation. Traces: {_short(own)} Training: {_short(asked)} `training.warm_start.template: recipe` gives "
            "the traces the recipe's template."
        )
    return PromptComparison(different=len(different), of=len(pairs), traces=own, training=asked)


def _as_asked(prompt: PromptFormat, trace: Trace) -> str:
    """The user turn with the statement in the recipe's template; one that is in it already stays as it is."""
    turn, mark = trace.prompt.strip(), "\0"
    around = user_message(replace(trace.problem, prompt=mark), prompt).partition(mark)
    before, after = around[0].strip(), around[2].strip()
    if (before or after) and turn.startswith(before) and turn.endswith(after):
        return turn
    return user_message(trace.problem, prompt)


def _short(text: str) -> str:
    """Shorten a text to its beginning and its end, on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= 160 else f"{line[:60]} … {line[-90:]}")


def without_held_out(
    traces: list[Trace], benchmarks: Sequence[tuple[pa.Table, Decontamination]]
) -> tuple[list[Trace], list[dict[str, Any]]]:
    """The traces that share no text with a benchmark item, by curation's rules, and the rejected rows for the
    others."""
    rejected: list[dict[str, Any]] = []
    for items, settings in benchmarks:
        leaks = Decontaminator(items, settings).split(to_table(problem_rows(traces))).rejected.to_pylist()
        gone = {(row["source"], row["source_id"]) for row in leaks}
        traces = [t for t in traces if (t.problem.source, t.problem.source_id) not in gone]
        rejected += leaks
    return traces, rejected


def teacher_traces(run: RunContext, start: WarmStart, problems: Mapping[str, Artifact]) -> Artifact:
    """The teacher's answers to the curated problems, right and wrong, as (prompt, response) pairs.

    Columns: problem_id, domain, prompt (the user turn), response. Truncated answers are omitted: a model must not learn
    to stop in the middle.
    """
    prompt, seed = run.recipe.model.prompt, run.recipe.seed
    wanted = allot(start.traces, start.mix or dict.fromkeys(problems, 1.0), least=0)
    teachers = {domain: start.teacher or run.recipe.curation_of(domain).teacher for domain in wanted}
    parameters = {
        "wanted": wanted,
        "teachers": teachers,
        "prompt": with_templates(prompt, wanted),
        "seed": {domain: teacher_seed(seed, teacher) for domain, teacher in teachers.items()},
    }

    def attempts_at(domain: str, only: Collection[str] | None = None) -> TeacherAttempts:
        """The teacher with as many attempts per problem as the wanted answers need."""
        read = problems[domain]
        rows = pq.read_metadata(read.kept).num_rows if read.path.exists() else 0
        teacher = teachers[domain].model_copy(update={"attempts": math.ceil(wanted[domain] / max(1, rows))})
        own_seed = teacher_seed(seed, teacher, f"traces-{domain}")
        return TeacherAttempts(teacher, read, prompt, own_seed, run.settings.home, only)

    def answers_of(domain: str, draft: Draft[TracesResult]) -> pa.Table:
        """The wanted answers. Of more problems than that, as many are asked as it takes, in the order of their ids:
        where answers are truncated, further ones."""
        read = from_table(pq.read_table(problems[domain].kept))
        prompts = {problem.problem_id: user_message(problem, prompt) for problem in read}
        ids, asked = sorted(prompts), wanted[domain]
        while True:
            attempts_at(domain, {*ids[:asked]}).collect(draft, run.reporter)
            answers = _answers(pq.read_table(draft.path / KEPT).to_pylist(), prompts, domain, wanted[domain])
            missing = wanted[domain] - len(answers)
            if not missing or asked >= len(ids):
                return answers
            asked += math.ceil(missing * asked / max(1, len(answers)))

    def make(draft: Draft[TracesResult]) -> None:
        tables = {domain: answers_of(domain, draft) for domain in wanted if wanted[domain]}
        traces = pa.concat_tables(tables.values())
        pq.write_table(traces, draft.path / KEPT)
        draft.counts = {"traces": len(traces)}
        draft.result.headline = ", ".join(f"{len(table):,} {domain}" for domain, table in tables.items())

    def check() -> None:
        for domain in (d for d in wanted if wanted[d]):
            if teachers[domain].kind == "none":
                raise RatchetError(
                    f"training.warm_start needs a teacher: set its `teacher` or `files`, or curation.{domain}.teacher."
                )
            attempts_at(domain).check()

    return run_step(
        run, TEACHER_TRACES, "warm-start", parameters=parameters, inputs=list(problems.values()), make=make,
        title="teacher traces", check=check, code=[*teacher_code(*teachers.values()), *code_of(wanted)],
    )  # fmt: skip


def _answers(attempts: list[dict[str, Any]], prompts: Mapping[str, str], domain: str, wanted: int) -> pa.Table:
    """The first finished answers, each problem's first before any second, as traces."""
    finished = [row for row in attempts if row["finish_reason"] == "stop"]
    rows = [
        {
            "problem_id": row["problem_id"], "domain": domain, "prompt": prompts[row["problem_id"]],
            "response": row["response"],
        }
        for row in sorted(finished, key=lambda row: (row["sample"], row["problem_id"]))[:wanted]
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)
