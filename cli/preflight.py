"""`ratchet preflight`: whether a recipe's machines can do what it will ask of them; in minutes, not on day two."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ratchet.cli.terminal import console
from ratchet.infra.errors import RatchetError
from ratchet.infra.launcher import STATUS, Group, TakenAway, launcher_of
from ratchet.infra.process_group import last_lines
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.settings import Settings, load_settings

STYLES = {"OK": "green", "FAIL": "bold red", "SKIP": "yellow"}
GONE_S = 90
"""In which a group should be gone when one of its ranks was killed."""
CHECK_S = 10.0
Line = tuple[str, str, str]
"""Name, state, and what is said."""


def preflight(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or a shipped recipe by name.")] = "tiny",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one field; repeatable.")
    ] = None,
    home: Annotated[str | None, typer.Option("--home", help="Where everything is kept (default: ./.ratchet).")] = None,
) -> None:
    """Try on the recipe's machines, started as training starts them, all that its stages will do: links, versions,
    disk, endpoints, the judge, the longest step of each stage, sampling, a checkpoint, a rank that is killed.

    A line each, OK or FAIL with what to do; the exit status is 1 after a FAIL. `ratchet plan` then
    uses the measured rates.

    Example: `ratchet preflight acereason-14b --home /shared/acereason`
    """
    settings, resolved = load_settings(home), load_recipe(recipe, set_ or ())
    if not resolved.training.stages:
        raise RatchetError(f"The recipe {resolved.name} has no stages to prepare for.")
    states = []
    for name, state, said in chain(endpoints(resolved, settings), _on_machines(resolved, settings)):
        console.print(Text.assemble((f"{state:<5}", STYLES[state]), f"{name:<18}", said), soft_wrap=True)
        states.append(state)
    failed = states.count("FAIL")
    console.print(f"\n{states.count('OK')} of {len(states)} OK" + (f", {failed} FAIL" if failed else ""))
    if failed:
        raise typer.Exit(1)


def endpoints(recipe: Recipe, settings: Settings) -> Iterator[Line]:
    """Every server that the recipe will ask."""
    from ratchet.infra.inference.engine import TEACHERS
    from ratchet.infra.tracking import mlflow_address

    def tracking(address: str) -> None:
        import httpx

        try:
            httpx.get(f"{address}/health", timeout=CHECK_S).raise_for_status()
        except httpx.HTTPError as error:
            raise RatchetError(f"{address} does not answer ({error}): MLFLOW_TRACKING_URI") from error

    def reward_servers() -> None:
        from ratchet.verifiers.serving.local_pool import open_pool

        open_pool(recipe.training.reward_servers).close()

    for domain, curation in recipe.curation.items():
        if curation.teacher.kind != "none":
            yield _line(f"teacher {domain}", lambda t=curation.teacher: TEACHERS.get(t.kind).check(t))
    if recipe.training.reward_servers:
        yield _line("reward servers", reward_servers)
    if address := mlflow_address(settings.tracking_uri):
        yield _line("tracking", lambda: tracking(address))


def _line(name: str, check: Callable[[], Any]) -> Line:
    try:
        check()
    except RatchetError as error:
        return name, "FAIL", str(error)
    return name, "OK", "answers"


def _on_machines(recipe: Recipe, settings: Settings) -> Iterator[Line]:
    """The group's own lines; then it is started again, for it ends with a rank killed."""
    from ratchet.training.machine import KILLED, LINES, measured_file

    hardware, measured = recipe.training.hardware, measured_file(settings.home, recipe.name)
    work = measured.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    spec = {
        "kind": "preflight", "recipe": recipe.model_dump(mode="json"), "stage": None, "model_dir": None,
        "problems": _curated(recipe, settings), "traces": None, "pass_rates": None, "validation": {},
        "work_dir": str(work), "measured": str(measured),
    }  # fmt: skip
    (work / "spec.json").write_text(json.dumps(spec))
    argv = (settings.python, "-P", "-m", "ratchet.training.launch", str(work / "spec.json"))
    group = Group(argv, hardware.machines, hardware.processes, work, work / "log")
    try:
        launcher_of(settings).check(hardware.machines)
        recipe.training.engine.check(settings.python)
    except RatchetError as error:
        yield "start", "FAIL", str(error)
        return
    read = 0
    for turn in ("first", "second"):
        killed_at = None
        try:
            with launcher_of(settings).launch(group, lambda said: console.print(said, style="dim")) as running:
                while (code := running.poll()) is None:
                    read, lines = _new_lines(work / LINES, read)
                    yield from lines
                    time.sleep(0.2)
                if (work / KILLED).is_file():
                    killed_at = float((work / KILLED).read_text())
                gone_s = time.time() - (killed_at or time.time())
        except TakenAway as reason:
            yield "start", "FAIL", f"its machines were taken from it: {reason}"
            return
        read, lines = _new_lines(work / LINES, read)
        yield from lines
        if turn == "second":
            if code:
                yield "resume", "FAIL", _why(work, f"the group ended with code {code} when it was started again")
        elif killed_at is None:
            yield "start", "FAIL", _why(work, f"the group ended with code {code} before its checks were over")
            return
        elif gone_s > GONE_S:
            yield "kill", "FAIL", f"a rank was killed, and the others took {gone_s:.0f} s to end: see {work / 'log'}"
        else:
            yield "kill", "OK", f"a rank was killed, and all others were gone after {gone_s:.1f} s"
    shutil.rmtree(work, ignore_errors=True)


def _new_lines(file: Path, begin: int) -> tuple[int, list[Line]]:
    from ratchet.infra.journal import read_lines  # pyarrow

    if not file.is_file():
        return begin, []
    found = list(read_lines(file, begin))
    return (found[-1][0] if found else begin), [(line["name"], line["state"], line["says"]) for _, line in found]


def _why(work: Path, ended: str) -> str:
    status = json.loads((work / STATUS).read_text()) if (work / STATUS).is_file() else {}
    if status.get("state") == "failed":
        return status["message"]
    return f"{ended}. The end of {work / 'log'}:\n{last_lines(work / 'log', 15)}"


def _curated(recipe: Recipe, settings: Settings) -> dict[str, str]:
    """The problems that training would read, of the domains where they are there."""
    from ratchet.flows.curate import curate_each
    from ratchet.tasks.pipeline_run import plan_run

    try:
        with plan_run(recipe, settings):
            problems = curate_each(recipe)
    except RatchetError:
        return {}  # files that are not there, which the plan of a run tells
    return {domain: str(artifact.kept) for domain, artifact in problems.items() if artifact.kept.is_file()}
