"""The kept rollouts of finished stages: find them by name, judge them again, and browse them on a page."""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import from_table
from ratchet.infra.pages import PAGES, render
from ratchet.infra.settings import Settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore, matches, resolve
from ratchet.infra.store.lineage import Lineage
from ratchet.infra.tracking.run_record import find_run
from ratchet.training.rollout_log import RolloutFilter, read_rollouts, rollout_files
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.reward import is_graded, reward_of
from ratchet.verifiers.serving.local_pool import open_pool
from ratchet.verifiers.submission import JudgeSettings

AHEAD = 1024
"""Most responses submitted and not yet judged: enough to keep all workers busy while one takes long."""
PAGE_BYTES = 8_000_000
"""Most bytes of text on a page, which a browser still filters at once."""
SHOWN = (
    "step", "domain", "problem_id", "sample", "outcome", "decided_by", "detail", "reward", "advantage", "tokens",
    "truncated", "learned", "prompt", "response",
)  # fmt: skip
"""Columns on a page."""


def stages_of(settings: Settings, what: str) -> list[Artifact]:
    """The trained stages that `what` names, in order: one stage, or all stages behind the results of a run or behind
    another artifact. Raises RatchetError if there is none whose rollouts were kept."""
    store = ArtifactStore(settings.artifacts)
    artifacts, lineage, own = list(store.all()), Lineage(store), set[Artifact]()
    if matches(what, artifacts):
        named = [resolve(what, artifacts, store.root)]
        own = {*store.ancestors(named)}
        named = named if named[0].kind == "checkpoint" else lineage.behind(named[0])
    elif record := find_run(settings, what):
        named = [each for end in record.ends for each in (*lineage.behind(end), end)]
        own = {step.output for step in record.steps}
    else:
        raise RatchetError(f"{what!r} is neither a stage nor a run. `ratchet show checkpoint` lists the stages.")
    stages = [each for each in named if each.kind == "checkpoint" and rollout_files(each.path)]
    # A stage that was made twice is one, and that which was really read.
    kept = {(each.name, each.content()): each for each in sorted(stages, key=lambda each: each in own)}
    if not kept:
        raise RatchetError(f"{what}: it has no kept rollouts. A stage keeps them unless keep_rollouts is `samples`.")
    return sorted(kept.values(), key=lambda each: each.manifest.finished_at)


def stage_directory(what: str) -> Path | None:
    """The directory of a stage's rollouts, finished or not, if `what` is one."""
    work = Path(what).expanduser()
    return work.resolve() if work.is_dir() and rollout_files(work) else None


@dataclass(frozen=True)
class KeptRollouts:
    """The rollouts of a stage, and the settings that judge them."""

    name: str
    path: Path
    problems: Sequence[Path]
    graded: Sequence[str]
    settings: JudgeSettings
    response_prefix: str

    @classmethod
    def of_artifact(cls, stage: Artifact, store: ArtifactStore) -> "KeptRollouts":
        parameters = stage.manifest.parameters
        asked, either = parameters["stage"], parameters.get("verified") == "either"
        mixes = [asked["mix"], *(each["do"].get("mix") or {} for each in asked["interventions"])]
        domains = dict.fromkeys(domain for mix in mixes for domain in mix)
        graded = [domain for domain in domains if is_graded(domain, asked.get("graded", ()))]
        problems = [each.kept for each in store.parents(stage) if each.kind == "problems" and each.kept.is_file()]
        settings = JudgeSettings(bool(graded), either, asked.get("total_time_limit_s"))
        return cls(stage.name, stage.path, problems, graded, settings, parameters["prompt"].get("response_prefix", ""))

    @classmethod
    def of_directory(cls, work: Path, spec: TrainingSpec) -> "KeptRollouts":
        """The rollouts of a stage in its own directory, finished or not, which `spec` describes."""
        stage = spec.stage
        graded = [domain for domain in stage.domains if is_graded(domain, stage.advanced.graded)]
        settings = spec.verification.settings(bool(graded), stage.advanced.total_time_limit_s)
        files = list(spec.problems.values())
        return cls(work.name, work, files, graded, settings, spec.model.prompt.response_prefix)


def kept_rollouts(settings: Settings, what: str) -> list[KeptRollouts]:
    """The rollouts of the stages that `stages_of` names, or of a stage's directory: the `work` of `train_stage`, or an
    unfinished one in the store. Raises RatchetError if there are none."""
    work = stage_directory(what)
    if work is None or (work / "manifest.json").is_file():
        store = ArtifactStore(settings.artifacts)
        return [KeptRollouts.of_artifact(stage, store) for stage in stages_of(settings, what)]
    specifications = (work / "spec.json", settings.logs / f"{work.name}.spec.json")
    if (file := next(filter(Path.is_file, specifications), None)) is None:
        raise RatchetError(f"{work}: there is no spec.json, which says what its responses are judged by.")
    return [KeptRollouts.of_directory(work, TrainingSpec.read(file))]


@dataclass(frozen=True)
class Rescored:
    """A rollout, the current verifier's verdict on it, and its rewards then and now, without penalties of length."""

    row: dict[str, Any]
    verdict: Verdict
    paid: float | None
    due: float | None

    @property
    def change(self) -> str:
        """The change of the reward: `overpaid`, `underpaid`, or "" if both rewards are the same or a verdict is an
        infrastructure error."""
        if self.paid is None or self.due is None or abs(self.paid - self.due) < 1e-9:
            return ""
        return "overpaid" if self.paid > self.due else "underpaid"


def rescored(rollouts: KeptRollouts, wanted: RolloutFilter, workers: int | None = None) -> Iterator[Rescored]:
    """Yield each judged rollout that matches, with the current verifier's verdict, as soon as it is judged. Truncated
    responses are omitted: training judges none. Raises RatchetError if a rollout's problem is gone."""
    tables = [pq.read_table(file) for file in rollouts.problems if file.is_file()]
    problems = {problem.problem_id: problem for table in tables for problem in from_table(table)}
    waiting: dict[int, dict[str, Any]] = {}

    def done(verdicts: Iterator[tuple[int, Verdict]]) -> Iterator[Rescored]:
        for ticket, verdict in verdicts:
            row = waiting.pop(ticket)
            paid, due = (
                reward_of(row["domain"], outcome, fraction, rollouts.graded)
                for outcome, fraction in (
                    (Outcome(row["outcome"]), row["fraction"]),
                    (verdict.outcome, verdict.fraction),
                )
            )
            yield Rescored(row, verdict, paid, due)

    with open_pool(workers=workers, settings=rollouts.settings) as pool:
        for ticket, row in enumerate(read_rollouts(rollouts.path, wanted)):
            if row["truncated"]:
                continue
            if (problem := problems.get(row["problem_id"])) is None:
                raise RatchetError(f"{rollouts.name}: the problem {row['problem_id']} is no longer among its inputs.")
            waiting[ticket] = row
            pool.submit(ticket, problem, rollouts.response_prefix + row["response"])
            yield from done(pool.results(wait=len(waiting) > AHEAD))
        yield from done(pool.results())


def rollouts_page(stages: Sequence[tuple[str, Path]], title: str) -> str:
    """One HTML file that filters and shows rollouts of these stages without a server: whole groups of evenly spaced
    steps, as many as `PAGE_BYTES` hold."""
    rows = [
        {"stage": name, **{column: row[column] for column in SHOWN}}
        for name, work in stages
        for row in _sampled(work, PAGE_BYTES // len(stages))
    ]
    total = sum(pq.read_metadata(file).num_rows for _, work in stages for _, file in rollout_files(work))
    script = (PAGES / "rollouts.js").read_text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing in it may end the script element that holds it.
    data = json.dumps(rows, ensure_ascii=False).replace("<", "\\u003c")
    return render(
        PAGES / "rollouts.html", title=title, subtitle=f"{len(rows):,} of {total:,} rollouts", rows=data, script=script,
        script_source=f"'sha256-{digest}'", directories=[f"{name}: {work / 'rollouts'}" for name, work in stages],
    )  # fmt: skip


def _sampled(work: Path, room: int) -> Iterator[dict[str, Any]]:
    """Yield whole groups of evenly spaced steps whose texts fit into `room` characters."""
    files = rollout_files(work)
    largest = max(_group_size([*_rows_of(work, step)]) for step, _ in _spaced(files, 3))  # responses grow or shrink
    fitting = max(1, int(room / largest))
    for step, _ in _spaced(files, min(len(files), fitting)):
        rows = _rows_of(work, step)
        whole = [list(members) for _, members in groupby(rows, key=lambda row: row["problem_id"])]
        for members in _spaced(whole, max(1, fitting // len(files))):
            yield from members


def _rows_of(work: Path, step: int) -> Iterator[dict[str, Any]]:
    return read_rollouts(work, RolloutFilter(steps=(step, step)))


def _group_size(rows: Sequence[dict[str, Any]]) -> float:
    """Mean characters of the texts of a prompt's rollouts."""
    groups = max(1, len({row["problem_id"] for row in rows}))
    return sum(200 + len(row["prompt"]) + len(row["response"]) + len(row["detail"]) for row in rows) / groups or 1.0


def _spaced(items: Sequence[Any], count: int) -> list[Any]:
    """Select at most `count` items, evenly spaced, with the first and the last."""
    if count >= len(items):
        return list(items)
    return [items[round(i * (len(items) - 1) / max(1, count - 1))] for i in range(count)]
