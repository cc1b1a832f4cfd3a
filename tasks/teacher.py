"""The step of curation that asks a teacher."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from ratchet.data_curation.base.draft import KEPT, Draft
from ratchet.data_curation.base.prompts import PromptFormat, with_templates
from ratchet.data_curation.base.protocol import derive_seed
from ratchet.data_curation.base.teacher_engine import TEACHERS
from ratchet.data_curation.curation_step import Rows
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.data_curation.teacher import attempts as attempting
from ratchet.data_curation.teacher.bill import Bill
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.manifest import AttemptsResult, TracesResult
from ratchet.infra.store.own_code import own_code
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.run_context import RunContext
from ratchet.tasks.step import Step, not_done, run_step
from ratchet.verifiers.domains import code_of

TEACHER_ATTEMPTS = Step("teacher_attempts", 6, "attempts")

PROMPTS_AT_ONCE = 256
"""Number of problems read at once; their tests may be megabytes."""
NO_TEACHER = "no teacher is configured (curation.{domain}.teacher.kind)"


def teacher_attempts(run: RunContext, domain: str, teacher: Teacher, problems: Artifact) -> Artifact:
    """Ask the teacher several times for each problem. Answers are journaled, so that none is paid for twice."""
    prompt, seed, home = run.recipe.model.prompt, run.recipe.seed, run.settings.home
    attempts = TeacherAttempts(teacher, problems, prompt, teacher_seed(seed, teacher, "curation"), home)
    parameters = {"teacher": teacher, "prompt": with_templates(prompt, [domain]), "seed": teacher_seed(seed, teacher)}

    def make(draft: Draft[AttemptsResult]) -> None:
        bill = attempts.collect(draft, run.reporter)
        rows = pq.read_metadata(problems.kept).num_rows
        draft.result.metrics = {**bill.totals()}
        draft.counts["attempts"] = pq.read_metadata(draft.path / KEPT).num_rows
        missing = f", {bill.answers - bill.answered:,} refused" if bill.answers > bill.answered else ""
        draft.result.headline = f"{bill.answered:,} answers to {rows:,} problems{missing}, {bill.summary()}"

    return run_step(
        run, TEACHER_ATTEMPTS, domain, parameters=parameters, inputs=[problems], make=make,
        title=f"teacher attempts {domain}", code=[*teacher_code(teacher), *code_of([domain])],
        estimate=lambda: attempts.known().estimate(), check=attempts.check,
    )  # fmt: skip


@dataclass(frozen=True)
class TeacherAttempts:
    """A teacher's attempts at the problems of a data set.

    The journal belongs to the teacher, not the artifact: answers that were paid for are reused under other parameters.
    """

    teacher: Teacher
    problems: Artifact
    prompt: PromptFormat
    seed: int
    home: Path
    only: Collection[str] | None = None
    """The problems to ask, by their ids; all if None."""

    @property
    def journal(self) -> Path:
        """The journal of the answers. Free answers belong to the code that gave them; paid ones are kept whatever the
        code is now."""
        kind, model = self.teacher.kind, self.teacher.model
        code = () if TEACHERS.get(kind).paid else own_code(teacher_code(self.teacher)).values()
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join([kind, model, *(digits[:12] for digits in code)]))
        return self.home / "teacher" / f"{name}.jsonl"

    @property
    def _prompts(self) -> attempting.Prompts:
        every = attempting.problem_prompts(lambda: Rows(self.problems.kept).batches(PROMPTS_AT_ONCE), self.prompt)
        if (only := self.only) is None:
            return every
        return lambda: (prompt for prompt in every() if prompt.problem_id in only)

    def known(self) -> Bill:
        """The bill of all attempts, with the answers that the journal already has."""
        return attempting.known_attempts(self._prompts, self.teacher, self.journal, self.seed)

    def check(self) -> None:
        """Raises RatchetError if the teacher is needed and would not answer. Before the problems exist, a journal
        counts as proof: the teacher may be gone by now with every answer journaled."""
        if self.journal.exists():
            if not self.problems.path.exists():
                return
            counted = self.known()
            if counted.answered == counted.answers:
                return
        TEACHERS.get(self.teacher.kind).check(self.teacher)

    def collect(self, draft: Draft[AttemptsResult] | Draft[TracesResult], reporter: ProgressReporter) -> Bill:
        """Write the attempts to a draft; returns their cost."""
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        chosen = TEACHERS.get(self.teacher.kind)
        engine = chosen.for_teacher(self.teacher)
        try:
            bill = attempting.collect_attempts(
                self._prompts, engine, self.teacher, self.journal, self.seed, draft.path / KEPT, reporter.progress,
                reporter.note if chosen.paid else lambda text: None,
            )  # fmt: skip
        finally:
            engine.close()
        if learned := getattr(bill.traffic, "learned", None):
            draft.result.endpoints = learned
        return bill


def teacher_seed(seed: int, teacher: Teacher, purpose: str = "") -> int:
    """The seed of a teacher's random numbers, another one for each purpose; all seeds share paid answers."""
    if teacher.kind != "none" and TEACHERS.get(teacher.kind).paid:
        return 0
    return derive_seed(seed, purpose) if purpose else seed


def teacher_code(*teachers: Teacher) -> list[str]:
    """Import paths of these teachers' engines."""
    return [TEACHERS.path(teacher.kind) for teacher in teachers if teacher.kind != "none"]


def without_teacher(run: RunContext, domain: str, steps: Sequence[str]) -> list[str]:
    """Record the steps that need a teacher as not done."""
    names = ["teacher_attempts", *steps]
    for name in names:
        not_done(run, name, domain, NO_TEACHER.format(domain=domain))
    return names
