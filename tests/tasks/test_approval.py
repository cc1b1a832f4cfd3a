import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.infra.tracking.events import Tracking
from ratchet.tasks.approval import gate
from ratchet.tasks.pipeline_run import plan_run
from ratchet.verifiers.errors import RatchetError, Waiting
from tests.flows.conftest import in_process

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
            gate(RECIPE, name, [problems])
        finally:
            run.tracking.close(wait_s=0)
    return (settings.journals / f"{run.tracking.run_id}.jsonl").read_text()


def test_a_gate_lets_through_what_a_person_has_approved_and_nothing_else(made, tmp_path):
    first = made("1", "a")
    come_to(tmp_path, first, "math-44")  # no gate of this recipe's
    with pytest.raises(Waiting, match=r"approval of curated: problems/math-aaaaaaaaaaaa \(7 kept, 3 rejected\)"):
        come_to(tmp_path, first)
    assert "curated" in in_process("approve", "--home", tmp_path) and "waits" in in_process(
        "approve", "--home", tmp_path
    )
    in_process("approve", "tiny", "--home", tmp_path)
    journal = come_to(tmp_path, first)
    assert "ratchet.approval.curated" in journal and "curated approved by" in journal
    come_to(tmp_path, made("1", "b"))  # the same content

    with pytest.raises(Waiting):
        come_to(tmp_path, made("2", "c"))
    in_process("approve", "tiny-seed0-pipeline", "--reject", "too few", "--home", tmp_path)
    with pytest.raises(
        RatchetError, match=r"curated rejected by .*: too few.* `ratchet approve problems/math-cccccccccccc`"
    ):
        come_to(tmp_path, made("2", "c"))
    with pytest.raises(RatchetError, match="No waiting run matches"):
        in_process("approve", "problems/math-ccc", "--home", tmp_path)  # what was rejected needs its whole name
    in_process("approve", "problems/math-cccccccccccc", "--home", tmp_path)
    come_to(tmp_path, made("2", "c"))


def test_what_waits_must_be_named_clearly(made, tmp_path):
    with pytest.raises(RatchetError, match=r"'tiny'\. None waits"):
        in_process("approve", "tiny", "--home", tmp_path)
    for content, key in (("1", "a"), ("2", "b")):
        with pytest.raises(Waiting):
            come_to(tmp_path, made(content, key))
    with pytest.raises(RatchetError, match=r"matches 2 gates.*aaaaaaaaaaaa .*bbbbbbbbbbbb .*Name one"):
        in_process("approve", "tiny", "--home", tmp_path)


def test_a_damaged_decision_is_named(made, tmp_path):
    with pytest.raises(Waiting):
        come_to(tmp_path, made("1", "a"))
    [file] = (tmp_path / "approvals").iterdir()
    for text, fault in (('{"recipe": "ti', "the file: Invalid JSON"), ('{"recipe": "tiny"}', "gate: Field required")):
        file.write_text(text)
        with pytest.raises(RatchetError, match=rf"{file.name}: {fault}.*delete it and decide again"):
            in_process("approve", "--home", tmp_path)


def test_a_plan_says_where_the_run_will_wait(made, tmp_path):
    problems = made("1", "a")
    with plan_run(RECIPE, load_settings(tmp_path)) as plan:
        gate(RECIPE, "curated", [problems])
    assert [step.not_done for step in plan.plan] == ["the run waits here for `ratchet approve tiny`"]


def test_a_gate_is_before_something_that_there_is():
    with pytest.raises(RatchetError, match="approve names 'math-37'; known: curated, start, math-36"):
        load_recipe("tiny", ["approve=[math-37]"])
