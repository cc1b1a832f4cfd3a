"""A loss and an advantage of one's own, by import path: the example of the documentation, and what is refused."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ratchet.tasks.training import check_choices
from ratchet.training.losses.loss import LossOutputs
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import IMPORT_PATH
from tests.training.batch import groups, learner, stage

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "howto/loss.md"


@pytest.fixture(scope="module")
def my_losses(tmp_path_factory) -> Iterator[Path]:
    """The example of the documentation as a file in a directory on the import path."""
    code = re.search(r"```python\n(.*?)```", (DOCS / PAGE).read_text(), re.DOTALL)
    assert code is not None
    file = tmp_path_factory.mktemp("mine") / "my_losses.py"
    file.write_text(code.group(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(IMPORT_PATH, str(file.parent))
        patch.setattr(sys, "path", [*sys.path])
        yield file


@pytest.mark.parametrize("path", ["my_losses:better_only", "ratchet.training.losses.cispo"])
def test_a_loss_by_its_import_path_trains(alone, micro_model, my_losses, path):
    policy, learns = learner(micro_model, loss=path, updates_per_batch=2)
    before = [weight.detach().clone() for weight in policy.model.parameters()]
    metrics = learns.learn(groups(0), 1.0)
    assert not all(torch.equal(*each) for each in zip(before, policy.model.parameters(), strict=True))
    assert ("above_cap" in metrics) == path.startswith("my_losses")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "gspoo"}, r"stage s: There is no loss 'gspoo'. Did you mean 'gspo'\? Known: grpo, dr_grpo, gspo"),
        ({"advantage": "rlo"}, r"There is no advantage 'rlo'. Did you mean 'rloo'\?"),
        ({"loss": "my_lossses:better_only"}, "'my_lossses:better_only' cannot be imported: ModuleNotFoundError"),
        ({"loss": "my_losses:best_only"}, "my_losses has no loss 'best_only'; it has better_only"),
        ({"loss": "my_losses:Stage"}, "my_losses has no loss 'Stage'"),
    ],
)
def test_a_choice_that_there_is_not_is_told(my_losses, settings, message):
    with pytest.raises(RatchetError, match=message):
        check_choices(stage(**settings))


def scalar(inputs, settings) -> LossOutputs:
    return LossOutputs(inputs.logprobs.mean())


def misnamed(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.logprobs, metrics={"entropy": inputs.mask})


def one_for_each_response(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.logprobs, divisor=inputs.mask.new_tensor(inputs.lengths))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("scalar", "see values"), ("misnamed", "no metric called entropy"), ("one_for_each_response", "see divisor")
    ],
)  # fmt: skip
def test_a_loss_must_return_a_number_for_each_token(alone, micro_model, name, what):
    _, learns = learner(micro_model, loss=f"{__name__}:{name}")
    with pytest.raises(RatchetError, match=f"must return one number per token.*{what}"):
        learns.learn(groups(0), 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "scalar"}, r"The stage s: the loss .*:scalar must return one number per token; see values"),
        (
            {"loss": "misspelled"},
            r"the loss .*:misspelled fails: TypeError: .*'value' \(.*test_own_loss.py, line \d+\)",
        ),
        ({"advantage": "out_of_range"}, r"the advantage .*:out_of_range fails: IndexError: tuple index out of range"),
    ],
)
def test_a_plan_tries_what_is_ones_own(settings, message):
    [(field, name)] = settings.items()
    with pytest.raises(RatchetError, match=message):
        check_choices(stage(**{field: f"{__name__}:{name}"}))


def misspelled(inputs, settings) -> LossOutputs:
    return LossOutputs(value=inputs.logprobs)


def out_of_range(groups, settings):
    return groups[0].rewards[2]


def test_an_advantage_of_ones_own_is_given_rewards(my_losses):
    (scored, *_) = groups(0, advantage="my_losses:max_rl")  # of four responses one is right: mean 1/4
    assert sorted(scored.advantages.values) == pytest.approx([-1, -1, -1, 3])
