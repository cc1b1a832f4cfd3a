import errno
import resource
import signal

import pytest
import torch

from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.training import checkpoint
from ratchet.training.checkpoint import Checkpoints, _manifest, _sealed
from ratchet.training.losses.loss import part_of_step
from ratchet.training.policy import Policy
from ratchet.verifiers.errors import RatchetError
from tests.training.test_policy import samples


def weights(policy: Policy) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in policy.model.parameters()]


def change(policy: Policy) -> None:
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight += 0.01


def equal(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


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
    assert equal(weights(policy), saved[3])
    assert sorted(path.name for path in directory.iterdir()) == ["step-00000002", "step-00000003"]


def test_its_model_is_what_transformers_loads(three):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _, policy, saved, directory = three
    model = AutoModelForCausalLM.from_pretrained(directory / "step-00000002" / "model")
    assert equal([weight.detach() for weight in model.parameters()], saved[2])
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
    assert equal(weights(policy), saved[2])
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
            patch.setattr(checkpoint, "_steps", lambda _: [gone])
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
    assert checkpoints.restore_best() == 2 and equal(weights(policy), saved[2])
    assert checkpoints.restore()[0] == 6 and equal(weights(policy), saved[6])
    assert Checkpoints(tmp_path / "none", policy).restore_best() is None


def test_a_stage_that_forgets_in_every_validation_has_its_start_back(policy, tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", policy)
    start = weights(policy)
    checkpoints.save(0, {}, 0.2)  # before the first update
    for step in (1, 2, 3):
        change(policy)
        checkpoints.save(step, {}, None)  # below a floor
    assert checkpoints.restore_best() == 0 and equal(weights(policy), start)


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
    hardware = Hardware(zero_stage=stage, dtype=dtype)
    policy = Policy(micro_model, hardware, Optimizer())
    update(policy, 1)
    Checkpoints(tmp_path, policy).save(1, {"note": "first"})
    then = whole(policy)
    update(policy, 2)
    later = whole(policy)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    other = Policy(micro_model, hardware, Optimizer())
    assert Checkpoints(tmp_path, other).restore() == (1, {"note": "first"}) and equal(whole(other), then)
    update(other, 2)
    assert equal(whole(other), later) and not equal(then, later)


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


def update(policy: Policy, seed: int) -> None:
    given = samples(4, seed)
    tokens = sum(len(sample.response) for sample in given)
    policy.update(
        policy.micro_batches(given),
        lambda batch, logprobs, _: part_of_step(-logprobs, batch.mask, tokens, 1),
        1.0,
        1e-2,
    )


def whole(policy: Policy) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in policy.whole_model().parameters()]
