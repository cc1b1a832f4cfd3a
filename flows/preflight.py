"""Test in minutes that a recipe's machines can do its work: `ratchet preflight RECIPE`."""

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

from ratchet.data_curation.base.journal import read_lines
from ratchet.data_curation.base.teacher_engine import TEACHERS
from ratchet.flows.curate import curated_problems
from ratchet.infra.launching.group import JobPreempted, ProcessGroup
from ratchet.infra.launching.launcher import launcher_of
from ratchet.infra.launching.run_group import run_group
from ratchet.infra.recipe import Recipe
from ratchet.infra.settings import Settings
from ratchet.infra.tracking.events import mlflow_address
from ratchet.training.machine import KILLED, LINES, measured_file
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.serving.local_pool import open_pool

GONE_S = 90
"""Seconds within which a group should end after one of its ranks was killed."""
CHECK_S = 10.0
Line = tuple[str, str, str]
"""Name, state (OK, FAIL or SKIP) and message."""


def preflight(recipe: Recipe, settings: Settings, show: Callable[[Line], None], say: Callable[[str], None]) -> None:
    """Test everything that the stages of a recipe need on its machines, started as for training. `ratchet plan` then
    uses the measured rates. `show` gets each result, `say` a message for each wait. Raises RatchetError for a recipe
    without stages."""
    if not recipe.training.stages:
        raise RatchetError(f"The recipe {recipe.name} has no stages to check.")
    for line in endpoints(recipe, settings):
        show(line)
    _on_machines(recipe, settings, show, say)


def endpoints(recipe: Recipe, settings: Settings) -> Iterator[Line]:
    def tracking(address: str) -> None:
        import httpx

        try:
            httpx.get(f"{address}/health", timeout=CHECK_S).raise_for_status()
        except httpx.HTTPError as error:
            raise RatchetError(f"{address} does not answer ({error}): MLFLOW_TRACKING_URI") from error

    teachers = {f"teacher {domain}": curation.teacher for domain, curation in recipe.curation.items()}
    if (start := recipe.training.warm_start) and start.teacher and not start.files:
        teachers["teacher warm start"] = start.teacher
    checks: dict[str, Callable[[], Any]] = {
        name: lambda t=teacher: TEACHERS.get(t.kind).check(t)
        for name, teacher in teachers.items()
        if teacher.kind != "none"
    }
    if recipe.training.reward_servers:
        checks["reward servers"] = lambda: open_pool(recipe.training.reward_servers).close()
    if address := mlflow_address(settings.tracking_uri):
        checks["tracking"] = lambda: tracking(address)
    for name, check in checks.items():
        try:
            check()
        except RatchetError as error:
            yield name, "FAIL", str(error)
        else:
            yield name, "OK", "answers"


def _on_machines(recipe: Recipe, settings: Settings, show: Callable[[Line], None], say: Callable[[str], None]) -> None:
    """The group's own lines. It is started twice: the first run ends with the kill of one of its ranks."""
    hardware, measured = recipe.training.hardware, measured_file(settings.home, recipe.name)
    work = measured.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    spec = TrainingSpec.of(
        recipe, kind="preflight", problems=curated_problems(recipe, settings), work_dir=work, measured=measured
    )
    (work / "spec.json").write_text(spec.model_dump_json())
    argv = (settings.python, "-P", "-m", "ratchet.training.launch", str(work / "spec.json"))
    group = ProcessGroup(argv, hardware.machines, hardware.processes, work, work / "log")
    launcher, shown = launcher_of(settings), 0

    def show_new() -> None:
        nonlocal shown
        for _, line in list(read_lines(work / LINES))[shown:] if (work / LINES).is_file() else ():
            shown += 1
            show((line["name"], line["state"], line["message"]))

    for turn in ("first", "second"):
        try:
            launcher.check(hardware.machines)
            recipe.training.engine.check(settings.python)
            result = run_group(group, launcher, show_new, say)
        except (RatchetError, JobPreempted) as error:
            show(("start", "FAIL", str(error)))
            return
        ended = time.time()
        killed = float((work / KILLED).read_text()) if (work / KILLED).is_file() else None
        if turn == "second":
            if result.code:
                show(("resume", "FAIL", f"the restarted group {result.reason}"))
        elif killed is None:
            show(("start", "FAIL", f"the group {result.reason}"))
            return
        else:
            took, state = ended - killed, "OK" if ended - killed < GONE_S else "FAIL"
            show(("kill", state, f"a rank was killed; all others ended within {took:.1f} s (log: {work / 'log'})"))
    shutil.rmtree(work, ignore_errors=True)
