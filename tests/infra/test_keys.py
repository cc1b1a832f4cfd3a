"""What of a recipe's settings a key holds."""

from typing import Literal

import pytest
from pydantic import Field

from ratchet.data_curation.base.section import NotInKey, Section
from ratchet.data_curation.settings.curation import Curation
from ratchet.infra.keys import decisive, flat, in_key
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.model import Model
from ratchet.infra.recipe.training import Stage, Training

STAGE = {"name": "math-24", "mix": {"math": 1.0}, "max_response_tokens": 24, "steps": 2}
RESETS = [{"when": {"every_steps": 5}, "do": {"reset": True}}]


class Knobs(Section):
    rate: float = 0.5


class Grown(Knobs):
    """The same section after a release."""

    warm: tuple[int, ...] = (1, 2)
    timeout_s: NotInKey[float] = Field(300.0, gt=0)
    """Held by no key."""


class Old(Section):
    knobs: Knobs | None = Knobs(rate=0.1)


class New(Section):
    knobs: Grown | None = Grown(rate=0.1)
    more: dict[str, float] = {}


@pytest.mark.parametrize("given", [{}, {"knobs": {}}, {"knobs": {"rate": 0.25}}, {"knobs": None}])
def test_a_new_field_with_a_default_changes_no_key(given):
    assert in_key(Old.model_validate(given)) == in_key(New.model_validate(given))


def test_what_differs_from_the_default_is_held_and_nothing_else():
    assert in_key(Stage.model_validate(STAGE)) == STAGE
    given = Stage.model_validate({**STAGE, "steps": 9, "rollouts": [8, 16], "interventions": RESETS, "clip_low": 0.2})
    assert in_key([given]) == [{**STAGE, "steps": 9, "rollouts": [8, 16], "interventions": RESETS}]
    assert in_key(Old()) == {} and in_key(Old(knobs=Knobs(rate=0.5))) == {"knobs": {}}, "the parent's default is 0.1"
    until = {"released_after": "2024-08-01"}
    assert in_key(Curation.model_validate({"decontaminate": until})) == {"decontaminate": until}
    assert in_key(Curation()) == {}
    templates = {"prompt": {"math": "{prompt}?"}}
    assert in_key(Model.model_validate(templates)) == templates, "extra fields have no default"
    assert decisive(New()) == {"knobs": {"rate": 0.1, "warm": [1, 2]}, "more": {}}


def test_a_field_that_becomes_an_advanced_one_changes_no_key():
    stage = Stage.model_validate({**STAGE, "advanced": {"kl_estimator": "k3", "mismatch_limit": None}})
    assert in_key(stage) == {**STAGE, "kl_estimator": "k3", "mismatch_limit": None}
    assert decisive(stage)["kl_estimator"] == "k3" and "advanced" not in decisive(stage)


def test_where_work_is_done_is_in_no_key():
    where = Training.model_validate({
        "checkpoint_every": 7, "hardware": {"advanced": {"timeout_minutes": 5}},
        "engine": {"kind": "vllm", "timeout_s": 5, "memory_share": 0.7}, "reward_servers": ["http://judge-1:8900"],
        "warm_start": {"files": ["mine.jsonl"]},
    })  # fmt: skip
    assert in_key(where) == {"warm_start": {}, "engine": {"kind": "vllm"}}
    rounding = {"hardware": {"processes": 2, "micro_batch_tokens": 100}}
    assert in_key(Training.model_validate(rounding)) == rounding


def test_two_kinds_with_nothing_set_are_two():
    class Local(Section):
        kind: Literal["local"] = "local"

    class Served(Section):
        kind: Literal["served"] = "served"

    class Other(Knobs):
        rate: float = 0.7

    class Choice(Section):
        engine: Local | Served | None = Local()
        knobs: Knobs = Knobs()

    assert in_key(Choice()) == {}
    assert in_key(Choice(engine=Served())) == {"engine": {"kind": "served"}}
    assert in_key({"engine": Local()}) != in_key({"engine": Served()})
    assert in_key(Choice(knobs=Other())) != in_key(Choice())


def test_leaves_have_dotted_names():
    assert flat({"a": {"b": [1, 2]}, "c": [{"d": None}, {"d": "x"}]}) == {"a.b": [1, 2], "c.0.d": None, "c.1.d": "x"}
    stages = flat(load_recipe("tiny").model_dump(mode="json", exclude_defaults=True))
    assert stages["training.stages.0.mix.math"] == 1.0
