"""Differences between two runs, from their journals."""

from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.infra.tracking.events import Tracking
from ratchet.infra.tracking.run_record import read_run
from ratchet.tasks.run_differences import differences


def test_each_of_two_steps_with_one_title_is_compared(tmp_path):
    """Two domains may have held-out files of one name. A step that is there twice is one."""
    settings = load_settings(tmp_path)
    store = ArtifactStore(settings.artifacts)

    def record(keys: str):
        tracking = Tracking(settings, "tiny", mirrored=False)
        root = tracking.start_run("pipeline")
        for key in keys:
            tracking.start_run("held out test", parent=root, output=store.locate("problems", "test", key * 64))
        tracking.close(wait_s=0)
        run = read_run(settings.journals / f"{root}.jsonl")
        assert run
        return run

    found = differences(record("aab"), record("cbbd"))
    assert list(found.own) == ["held out test"] and len(found.shared) == 2
    assert found.only == ([], ["held out test (3)"])
