"""A loss and an advantage of one's own, by import path: the example of the documentation, and what is refused."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ratchet.tasks.training import check_loss_and_advantage, loss_trial
from ratchet.training.losses.loss import LossOutputs
from ratchet.training.losses.trial import unread_settings
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
        ({"loss": "gspo", "loss_settings": {"beta": 0.5}}, "loss_settings are for .* of your own; gspo and grpo"),
    ],
)
def test_a_choice_that_there_is_not_is_told(my_losses, settings, message):
    with pytest.raises(RatchetError, match=message):
        check_loss_and_advantage(stage(**settings))


def scalar(inputs, settings) -> LossOutputs:
    return LossOutputs(inputs.logprobs.mean())


def misnamed(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.logprobs, metrics={"entropy": inputs.mask})


def one_for_each_response(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.logprobs, divisor=inputs.mask.new_tensor(inputs.lengths))


@pytest.mark.parametrize(
    ("name", "what"), [("misnamed", "no metric called entropy"), ("one_for_each_response", "see divisor")]
)
def test_a_loss_must_return_a_number_for_each_token(alone, micro_model, name, what):
    _, learns = learner(micro_model, loss=f"{__name__}:{name}")
    with pytest.raises(RatchetError, match=f"must return one number per token.*{what}"):
        learns.learn(groups(0), 1.0)


def misspelled(inputs, settings) -> LossOutputs:
    return LossOutputs(value=inputs.logprobs)


def constant(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.advantages * inputs.logprobs.detach())


def canceled(inputs, settings) -> LossOutputs:
    return LossOutputs(inputs.advantages * (inputs.logprobs - inputs.logprobs))


def infinite(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.logprobs / inputs.advantages.clamp(min=0))


def steep(inputs, settings) -> LossOutputs:
    """Finite before the first update, where its gradient is not."""
    return LossOutputs(inputs.advantages * (inputs.logprobs - inputs.old_logprobs).abs().sqrt())


def normalized(inputs, settings) -> LossOutputs:
    """Not a number where no response is better than another."""
    return LossOutputs(-inputs.advantages / inputs.advantages.std() * inputs.logprobs)


def divided_by_zero(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.advantages * inputs.logprobs, divisor=0.0)


def with_kl_term(inputs, settings) -> LossOutputs:
    policy = -inputs.advantages * inputs.ratio()
    return LossOutputs(policy + settings.loss_settings["beta"] * (inputs.logprobs - inputs.sampled_logprobs + 1) ** 2)


def with_penalty(inputs, settings) -> LossOutputs:
    """A gradient without advantages only after an update."""
    return LossOutputs(-inputs.advantages * inputs.ratio() + (inputs.ratio() - 1) ** 2)


def spread(inputs, settings) -> LossOutputs:
    return LossOutputs(-inputs.advantages * inputs.ratio() * dict(**settings.loss_settings)["beta"])


def scaled(groups, settings):
    return [[reward * settings.loss_settings.get("scale", 1.0) for reward in group.rewards] for group in groups]


def out_of_range(groups, settings):
    return groups[0].rewards[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "scalar"}, r"The stage s: the loss .*:scalar must return one number per token; see values"),
        ({"loss": "misspelled"}, r":misspelled fails: TypeError: .*'value' \(.*test_own_loss.py, line \d+\)"),
        ({"loss": "constant"}, r":constant has no gradient with respect to inputs.logprobs"),
        ({"loss": "canceled"}, r":canceled has no gradient with respect to inputs.logprobs"),
        ({"loss": "infinite"}, r":infinite is not finite: with advantages 1 and -1 it is inf"),
        ({"loss": "divided_by_zero"}, r":divided_by_zero is not finite: .* it is "),
        ({"loss": "steep"}, r":steep is not finite: with advantages 1 and -1 its gradient is (inf|nan)"),
        ({"loss": "normalized"}, r":normalized is not finite: with all advantages 0, .*, it is nan"),
        ({"loss": "with_kl_term"}, r":with_kl_term fails: KeyError: 'beta'"),
        ({"advantage": "out_of_range"}, r"the advantage .*:out_of_range fails: IndexError: tuple index out of range"),
    ],
)
def test_a_plan_tries_what_is_ones_own(settings, message):
    [(field, name)] = settings.items()
    with pytest.raises(RatchetError, match=message):
        check_loss_and_advantage(stage(**{field: f"{__name__}:{name}"}))


def test_a_trial_gives_value_and_gradient_and_warns_of_one_without_advantages():
    """By hand: -Σ A ρ / 5 = 1/5 with ρ = 1, whose gradient is ±1/5 at five tokens; the term adds β and 2β to each."""
    path = f"{__name__}:with_kl_term"
    trial = loss_trial(stage(loss=path, loss_settings={"beta": 0.5}))
    assert trial is not None
    assert (trial.value, trial.without_advantages) == pytest.approx((1 / 5 + 0.5, 1.25 * 5**-0.5))  # after 0.25 nats
    assert trial.gradient_norm == pytest.approx((3 * 0.4**2) ** 0.5)
    assert "is 0.7, its gradient norm 0.6928" in trial.summary and "Give kl_coefficient" in trial.warning
    computed = loss_trial(stage(loss=path, loss_settings={"beta": 0.5}, entropy_bonus=0.01))
    assert computed is not None and not computed.warning
    penalized = loss_trial(stage(loss=f"{__name__}:with_penalty"))
    assert penalized is not None and "Give kl_coefficient" in penalized.warning
    assert loss_trial(stage()) is None


@pytest.mark.parametrize("name", ["with_kl_term", "spread"])
def test_a_misspelled_setting_is_warned_of(name):
    given = {"beta": 0.5, "betta": 0.1}
    warning = unread_settings(stage(loss=f"{__name__}:{name}", loss_settings=given))
    assert ("betta" in warning) == (name == "with_kl_term")
    assert not unread_settings(stage(loss=f"{__name__}:{name}", loss_settings={"beta": 0.5}))


def test_a_setting_that_the_advantage_alone_reads_is_read():
    own = {"loss": f"{__name__}:with_kl_term", "advantage": f"{__name__}:scaled"}
    assert not unread_settings(stage(**own, loss_settings={"beta": 0.5, "scale": 2.0}))


def test_an_advantage_of_ones_own_is_given_rewards(my_losses):
    (scored, *_) = groups(0, advantage="my_losses:max_rl")  # of four responses one is right: mean 1/4
    assert sorted(scored.advantages.values) == pytest.approx([-1, -1, -1, 3])
