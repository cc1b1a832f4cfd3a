import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.flows.runs import plan_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.tracking.events import Tracking
from ratchet.tasks.approval import decide, wait_for_approval
from ratchet.verifiers.errors import RatchetError, Waiting
from tests.flows.commands import in_process

RECIPE = load_recipe("tiny", ["approve=[curated, math-36]"])


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str, str], Artifact]:
    """Finished problems with this content, under this key."""
    store = ArtifactStore(load_settings(tmp_path).artifacts)

    def make(content: str, key: str) -> Artifact:
        target = store.locate("problems", "math", key * 64)
        with store.draft(target, resumable=False) as draft:
            draft.counts |= {"kept": 7, "rejected": 3}
            (draft.path / "kept.parquet").write_text(content)
            facts = {"step": "curated", "step_version": 1, "parameters": {}, "inputs": (), "started_at": time.time()}
            return store.finish(target, draft, **facts)

    return make


def come_to(home: Path, problems: Artifact, name: str = "curated") -> str:
    """What the journal says of a run that has come to a gate, and through it."""
    settings = load_settings(home)
    with plan_run(RECIPE, settings) as run:
        run.tracking = Tracking(settings, "tiny")  # no plan any more
        try:
            wait_for_approval(run, name, [problems])
        finally:
            run.tracking.close(wait_s=0)
    return (settings.journals / f"{run.tracking.run_id}.jsonl").read_text()


def decided(home: Path, problems: Artifact, approved: bool, reason: str = "") -> None:
    """What `ratchet run --approve` and `--reject` do before the run."""
    settings = load_settings(home)
    with plan_run(RECIPE, settings) as run:
        wait_for_approval(run, "curated", [problems])
    decide(run.plan, settings, approved, reason)


def test_a_gate_lets_through_what_a_person_has_approved_and_nothing_else(made, tmp_path):
    first = made("1", "a")
    come_to(tmp_path, first, "math-44")  # no gate of this recipe's
    with pytest.raises(Waiting, match=r"approval of curated: problems/math-aaaaaaaaaaaa \(7 kept, 3 rejected\)"):
        come_to(tmp_path, first)
    listed = in_process("show", "approvals", "--home", tmp_path)
    assert "curated" in listed and "waits" in listed
    decided(tmp_path, first, True)
    journal = come_to(tmp_path, first)
    assert "ratchet.approval.curated" in journal and "curated approved by" in journal
    come_to(tmp_path, made("1", "b"))  # the same content

    second = made("2", "c")
    with pytest.raises(RatchetError, match="No run with these settings waits"):
        decided(tmp_path, second, True)  # nobody was asked yet
    with pytest.raises(Waiting):
        come_to(tmp_path, second)
    decided(tmp_path, second, False, "too few [/figures]")  # no markup
    assert "too few [/figures]" in in_process("show", "approvals", "--home", tmp_path)
    found = json.loads(in_process("show", "approvals", "--json", "--home", tmp_path))[-1]
    assert found["approved"] is False and found["reason"] == "too few [/figures]" and found["by"] and found["at"]
    with pytest.raises(RatchetError, match=r"curated rejected by .*: too few.* the same command with --approve"):
        come_to(tmp_path, second)
    decided(tmp_path, second, True)
    come_to(tmp_path, second)


def test_a_damaged_decision_is_named(made, tmp_path):
    with pytest.raises(Waiting):
        come_to(tmp_path, made("1", "a"))
    [file] = (tmp_path / "approvals").iterdir()
    for text, fault in (('{"recipe": "ti', "the file: Invalid JSON"), ('{"recipe": "tiny"}', "gate: Field required")):
        file.write_text(text)
        with pytest.raises(RatchetError, match=rf"{file.name}: {fault}.*delete it and decide again"):
            in_process("show", "approvals", "--home", tmp_path)


def test_a_plan_says_where_the_run_will_wait(made, tmp_path):
    problems = made("1", "a")
    with plan_run(RECIPE, load_settings(tmp_path)) as plan:
        wait_for_approval(plan, "curated", [problems])
    assert [step.not_done for step in plan.plan] == ["the run waits here for --approve"]


def test_a_gate_is_before_something_that_there_is():
    with pytest.raises(RatchetError, match="approve names 'math-37'; known: curated, start, math-36"):
        load_recipe("tiny", ["approve=[math-37]"])
