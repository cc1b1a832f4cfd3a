"""The step of a flow that trains, in a process that can be killed: `python -m tests.training.one_step SPEC.json`."""

import signal
import sys
from pathlib import Path

from ratchet.data_curation.base.draft import Draft, StepResult
from ratchet.flows.runs import plan_run
from ratchet.infra.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.worker import MetricsFollower, run_worker
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError

signal.signal(signal.SIGINT, signal.default_int_handler)  # a test in the background would have it ignored
spec = TrainingSpec.read(Path(sys.argv[1]))
work = spec.work_dir
work.mkdir(exist_ok=True)
with plan_run(Recipe(name="one"), load_settings()) as run:
    try:
        follow = MetricsFollower(run, "", work / "metrics.jsonl")
        run_worker(run, "ratchet.training.launch", spec, Draft(work, StepResult()), "stage", follow)
    except RatchetError as error:
        sys.exit(f"error: {error}")
