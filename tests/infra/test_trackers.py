"""TensorBoard and Weights & Biases: what their mirrors write is read back from their own files."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.infra.settings import Settings, load_settings
from ratchet.infra.tracking import sinks
from ratchet.infra.tracking.events import Tracking, not_received
from ratchet.infra.tracking.mirror import mirror
from ratchet.infra.tracking.mirrored import abandoned
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import free_port
from tests.infra.misbehaving_server import Server
from tests.infra.test_tracking import write_a_run
from tests.waiting import PATIENCE_S

ROLLOUT = {"shown": "best", "reward": 1.0, "prompt": "1 + 1 | 2?\n# no title", "response": "<b>\\boxed{2}"}


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    """A home with the journal of one whole run that no mirror has seen."""
    monkeypatch.setattr("ratchet.infra.tracking.mirror.GIVE_UP_AFTER_S", 0)
    monkeypatch.setattr("ratchet.infra.tracking.mirror.AGAIN_S", 0)
    settings = Settings(tmp_path, "", sys.executable, trackers=())
    tracking, root = write_a_run(settings)
    rollouts = tmp_path / "samples.jsonl"
    rollouts.write_text("".join(json.dumps({"step": step, **ROLLOUT}) + "\n" for step in (1, 2)))
    for _ in range(2):  # while the stage runs, and at its end
        tracking.event("table", f"{root}.2", path=str(rollouts))
    tracking.metrics(root, {"math-60/pass@1": 0.25})
    tracking.event("end", f"{root}.2", status="FINISHED")
    tracking.event("end", root, status="FINISHED")
    tracking.close(wait_s=0)
    return settings


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder)).Reload()
    return {tag: [(point.step, point.value) for point in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_tensorboard_has_a_folder_for_each_step_with_rollouts_as_plain_text_and_nothing_twice(settings):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        assert mirror("tensorboard", settings.journals, str(settings.tensorboard))
        [run] = settings.tensorboard.iterdir()
        assert scalars(run) == {"math-60/pass@1": [(0, 0.25)]}
        assert scalars(run / "train math-8k") == {"pass@1": [(s, pytest.approx(s / 10)) for s in range(1, 5)]}
        [state] = settings.journals.glob("*.tensorboard.json")
        assert json.loads(state.read_text()) == {"complete": True, "problem": ""}
        state.unlink()  # as if the mirror had been killed before its end
        first, second = EventAccumulator(str(run / "train math-8k")).Reload().Tensors("samples")
        assert (first.step, second.step) == (1, 2)
        assert "\n    1 + 1 | 2?\n    # no title\n" in first.tensor_proto.string_val[0].decode()


def records(folder: Path) -> Iterator[tuple[str, dict]]:
    """(kind, JSON) of each record of an offline run: W&B's file is a log of LevelDB after a head of 7 bytes."""
    from google.protobuf.json_format import MessageToDict
    from wandb.proto.wandb_internal_pb2 import Record

    [file] = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, record = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (rest := 32768 - at % 32768) < 7:
            at += rest
            continue
        size, part = struct.unpack("<HB", data[at + 4 : at + 7])
        record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if part in (1, 4):  # whole, or the last part
            kind = (parsed := Record.FromString(record)).WhichOneof("record_type")
            yield kind, MessageToDict(getattr(parsed, kind))
            record = b""


@pytest.fixture
def wandb(monkeypatch) -> Iterator[Any]:
    """It reads its environment once in a process."""
    wandb = pytest.importorskip("wandb")
    monkeypatch.setattr("ratchet.infra.tracking.sinks.LONGEST_S", PATIENCE_S)
    yield wandb
    wandb.teardown()


def test_wandb_has_one_run_with_the_curves_of_each_step(settings, wandb, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert mirror("wandb", settings.journals, str(settings.home))
    wandb.teardown()  # its service writes the file, on a busy machine after `finish` has returned
    kept = list(records(settings.home))
    [run] = [facts for kind, facts in kept if kind == "run"]
    assert (run["project"], run["displayName"]) == ("tiny", "pipeline")
    lines = [
        {item["nestedKey"][0]: json.loads(item["valueJson"]) for item in facts["item"]}
        for kind, facts in kept
        if kind == "history"
    ]
    curve = [(line["train math-8k/step"], line["train math-8k/pass@1"]) for line in lines[:4]]
    assert curve == [(step, step / 10) for step in range(1, 5)]
    assert lines[-1]["math-60/pass@1"] == 0.25 and "train math-8k/samples" in lines[-2]
    places = [line["_step"] for line in lines]
    assert places == sorted(set(places)), "W&B drops a line whose step is not above the last"
    assert [facts.get("exitCode", 0) for kind, facts in kept if kind == "exit"] == [0]


@pytest.mark.parametrize("status", [401, 403])
def test_a_service_that_refuses_the_key_is_told_in_one_line(settings, wandb, monkeypatch, status):
    with Server(status) as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
        assert not mirror("wandb", settings.journals, str(settings.home))
    [journal] = settings.journals.glob("*.jsonl")
    said = not_received(Settings(settings.home, "", sys.executable, trackers=("wandb",)), journal.stem)
    assert said.startswith("Weights & Biases has not received everything yet: ") and "set WANDB_API_KEY" in said
    assert "\n" not in said and "0123456789" not in said
    wandb.teardown()
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert mirror("wandb", settings.journals, str(settings.home)), "the next one sends everything"
    wandb.teardown()
    assert "history" in dict(records(settings.home))


def test_a_service_that_is_dead_is_told_in_one_line(settings, wandb, monkeypatch):
    monkeypatch.setattr("ratchet.infra.tracking.sinks.LONGEST_S", 1.0)
    address = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("WANDB_BASE_URL", address)
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    assert not mirror("wandb", settings.journals, str(settings.home))
    [journal] = settings.journals.glob("*.jsonl")
    said = not_received(Settings(settings.home, "", sys.executable, trackers=("wandb",)), journal.stem)
    assert f"{address} does not answer: correct WANDB_BASE_URL, or set WANDB_MODE=offline" in said and "\n" not in said


def test_the_environment_says_which_trackers(tmp_path, monkeypatch):
    assert load_settings(tmp_path).trackers == ("mlflow",)
    monkeypatch.setenv("RATCHET_TRACKING", "mlflow, mlflow")
    assert load_settings(tmp_path).trackers == ("mlflow",)
    monkeypatch.setenv("RATCHET_TRACKING", "wandbb")
    with pytest.raises(RatchetError, match=r"no tracker 'wandbb'\. Did you mean 'wandb'"):
        load_settings(tmp_path)


def test_a_run_that_ends_while_it_is_looked_at_is_sent_whole(tmp_path, monkeypatch):
    ended = []

    class Kept:
        def __init__(self, *_):
            pass

        def finish(self, status):
            ended.append(status)

    settings = Settings(tmp_path, "", sys.executable, trackers=())
    tracking = Tracking(settings, "tiny")
    root = tracking.start_run("pipeline")
    monkeypatch.setitem(sinks.SINKS, "kept", Kept)
    journal = sinks.WholeRun(settings.journals / f"{root}.jsonl", "kept", tmp_path)
    journal.replay()

    def look(path, offset):
        tracking.event("end", root, status="FINISHED")
        tracking.close(wait_s=0)
        return abandoned(path, offset)

    monkeypatch.setattr(sinks, "abandoned", look)
    journal.replay()
    assert journal.complete and ended == ["FINISHED"]
