import errno
import resource
import signal

import pytest
import torch

from ratchet.infra.recipe.training import Hardware
from ratchet.training import checkpoint
from ratchet.training.checkpoint import Checkpoints, _manifest, _sealed
from ratchet.training.checkpoint_files import checkpoint_steps, keep_newest
from ratchet.training.policy import Policy
from ratchet.verifiers.errors import RatchetError
from tests.training.batch import groups, learner, same_bits, weights


def change(policy: Policy) -> None:
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight += 0.01


@pytest.fixture
def three(policy, tmp_path):
    """Checkpoints at steps 1, 2 and 3, and the weights of each."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", policy)
    saved = {}
    for step in (1, 2, 3):
        change(policy)
        saved[step] = weights(policy)
        checkpoints.save(step, {"note": f"after {step}"})
    change(policy)
    return checkpoints, policy, saved, tmp_path / "checkpoints"


def test_the_newest_is_restored_and_two_are_kept(three):
    checkpoints, policy, saved, directory = three
    restored = checkpoints.restore()
    assert restored == (3, {"note": "after 3"})
    assert same_bits(weights(policy), saved[3])
    assert sorted(path.name for path in directory.iterdir()) == ["step-00000002", "step-00000003"]


def test_the_newest_stay_with_a_finished_stage_and_nothing_else_of_the_folder(policy, tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", policy, keep=3)
    for step in range(1, 6):
        checkpoints.save(step, {})
    assert list(checkpoint_steps(tmp_path / "checkpoints")) == [3, 4, 5]
    (tmp_path / "checkpoints" / "damaged-step-00000002").mkdir()
    (tmp_path / "checkpoints" / "0-log").touch()
    keep_newest(tmp_path / "checkpoints", 2)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000004", "step-00000005"]
    keep_newest(tmp_path / "checkpoints", 0)
    assert not (tmp_path / "checkpoints").exists()


def test_its_model_is_what_transformers_loads(three):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _, policy, saved, directory = three
    model = AutoModelForCausalLM.from_pretrained(directory / "step-00000002" / "model")
    assert same_bits(dict(model.named_parameters()), saved[2])
    tokenizer = AutoTokenizer.from_pretrained(directory / "step-00000002" / "model")
    assert tokenizer("What is 3?").input_ids == policy.tokenizer("What is 3?").input_ids


@pytest.mark.parametrize("file", ["model/model.safetensors", "engine/*model_states.pt", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "delete"])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_used(three, capsys, file, damage):
    checkpoints, policy, saved, directory = three
    (path,) = (directory / "step-00000003").glob(file)
    content = bytearray(path.read_bytes())
    if damage == "delete":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 0x15
        path.write_bytes(content)
    assert checkpoints.restore()[0] == 2
    assert same_bits(weights(policy), saved[2])
    assert "step-00000003" in capsys.readouterr().err


def test_any_other_byte_of_a_manifest_is_noticed(three):
    """A changed score would choose another result, a changed step would repeat or skip one."""
    _, _, _, directory = three
    file = directory / "step-00000003" / "manifest.json"
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError):
            _manifest(file.parent)
    file.write_bytes(content)
    assert _manifest(file.parent)["step"] == 3
    file.write_text("3")
    with pytest.raises(ValueError):
        _manifest(file.parent)


def test_all_damaged_starts_the_stage_from_its_beginning(three, capsys):
    """And they are not counted among the checkpoints to keep."""
    checkpoints, _, _, directory = three
    for path in directory.glob("step-*/manifest.json"):
        path.unlink()
    assert checkpoints.restore() is None
    assert "from its beginning" in capsys.readouterr().err
    checkpoints.save(1, {"step": 1})
    assert checkpoints.restore()[0] == 1


def stale(*_):
    raise OSError(errno.ESTALE, "Stale file handle")


@pytest.mark.parametrize("fails", ["here", "on another rank", "not mounted"])
def test_what_cannot_be_read_is_not_damaged(three, monkeypatch, fails):
    checkpoints, _, _, directory = three
    with monkeypatch.context() as patch:
        if fails == "here":
            patch.setattr(checkpoint, "sha256_file", stale)
        elif fails == "on another rank":
            patch.setattr(checkpoint.ranks, "gather", lambda mine: [mine, (None, "Stale file handle")])
        else:
            gone = directory / "step-00000004"
            patch.setattr(checkpoint, "checkpoint_steps", lambda _: {4: gone})
        with pytest.raises(RatchetError, match=r"cannot read .*step-0000000.* Run the same command again"):
            checkpoints.restore()
    assert checkpoints.restore()[0] == 3


def test_a_damaged_one_that_cannot_be_set_aside_is_told(three, monkeypatch):
    checkpoints, _, _, directory = three
    (directory / "step-00000003" / "manifest.json").unlink()
    monkeypatch.setattr(checkpoint.Path, "rename", stale)
    with pytest.raises(RatchetError, match=r"rename .*step-00000003: .*Stale"):
        checkpoints.restore()


def test_a_draft_is_not_a_checkpoint(policy, tmp_path):
    draft = tmp_path / "checkpoints" / ".draft-00000005"
    draft.mkdir(parents=True)
    (draft / "manifest.json").write_text("{}")
    checkpoints = Checkpoints(tmp_path / "checkpoints", policy)
    assert checkpoints.restore() is None
    checkpoints.save(5, {})
    assert checkpoints.restore()[0] == 5


def test_the_best_validated_is_kept_and_can_be_had_back(policy, tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", policy)
    saved = {}
    for step, score in ((1, None), (2, 0.7), (3, None), (4, 0.6), (5, 0.7), (6, None)):
        change(policy)
        saved[step] = weights(policy)
        checkpoints.save(step, {}, score)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step-00000002", "step-00000005", "step-00000006",
    ]  # fmt: skip
    assert checkpoints.restore_best() == (2, 0.7) and same_bits(weights(policy), saved[2])
    assert checkpoints.restore()[0] == 6 and same_bits(weights(policy), saved[6])
    assert Checkpoints(tmp_path / "none", policy).restore_best() is None


def test_a_checkpoint_of_another_model_is_refused_by_name(three):
    checkpoints, _, _, directory = three
    for path in directory.glob("step-*/manifest.json"):
        path.write_text(_sealed({**_manifest(path.parent), "model": "qwen2, 1 layer"}))
    with pytest.raises(RatchetError, match=r"step-00000003 is a checkpoint of another model .*\(qwen2, .*here llama"):
        checkpoints.restore()


@pytest.mark.parametrize(
    ("stage", "dtype"), [(0, "float32"), (2, "float32"), (3, "float32"), (0, "bfloat16"), (3, "bfloat16")]
)
def test_a_restored_policy_goes_on_bit_for_bit(alone, micro_model, tmp_path, stage, dtype):
    policy, learns = learner(micro_model, Hardware(zero_stage=stage, dtype=dtype))
    learns.learn(groups(1), 1.0)
    Checkpoints(tmp_path, policy).save(1, {"note": "first"})
    then = weights(policy)
    learns.learn(groups(2, policy.version), 1.0)
    later = weights(policy)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    other, learns = learner(micro_model, Hardware(zero_stage=stage, dtype=dtype))
    assert Checkpoints(tmp_path, other).restore() == (1, {"note": "first"}) and same_bits(weights(other), then)
    learns.learn(groups(2, other.version), 1.0)
    assert same_bits(weights(other), later) and not same_bits(then, later)


def test_a_full_disk_is_told_and_leaves_no_checkpoint(policy, tmp_path):
    """Files may grow to 20 kB only, which is less than the weights."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", policy)
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(RatchetError, match=r"Cannot write .*Free some space"):
            checkpoints.save(1, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert checkpoints.restore() is None
    checkpoints.save(1, {})
    assert checkpoints.restore()[0] == 1
