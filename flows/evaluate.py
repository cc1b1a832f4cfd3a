"""Evaluate one model on the recipe's benchmarks."""

import re

from ratchet.data_curation.settings.teacher import Endpoint
from ratchet.flows.flow import flow
from ratchet.flows.runs import note_cpu_overrides
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.evaluation import chosen_benchmarks, evaluate_model, given_model, training_of
from ratchet.tasks.report import report
from ratchet.tasks.run_context import RunContext


@flow
def evaluate(run: RunContext, model: str) -> Artifact:
    """Sample, grade and score a model (`checkpoint/math-60-…`, a directory, or URL#NAME of an endpoint); returns the
    report."""
    run.phase("Evaluate")
    note_cpu_overrides(run)
    chosen_benchmarks(run)  # faults of their files need no model
    subject = given_model(run, model)
    label = subject.model.split("/")[-1] if isinstance(subject, Endpoint) else subject.name
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", label)
    return report(run, [evaluate_model(run, subject, label, training_of(run, subject))])
