"""The KL term to a model that the stage names, with and without rewards; docs/howto/distillation.md."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ratchet.data_curation.base.problem_table import to_table
from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import plan_run
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.model import NewModelConfig
from ratchet.infra.recipe.stage import StageDetails
from ratchet.infra.recipe.training import Hardware, Optimizer, Stage
from ratchet.infra.settings import load_settings
from ratchet.training.estimate import estimate
from ratchet.training.machine import parse_machine
from ratchet.training.new_model import create
from ratchet.training.policy import Policy
from ratchet.training.shape import shape_of
from ratchet.training.stage import train_stage
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI
from tests.training.batch import gradient, groups, learner, stage
from tests.training.conftest import sums

TERM = {"kl_coefficient": 1.0, "advantage": "none"}


@pytest.mark.parametrize("zero_stage", [0, 3])
def test_its_gradient_is_that_of_the_reverse_kl_to_the_named_model(alone, micro_model, learnt_model, zero_stage):
    asked = TERM | {"reference_model": str(learnt_model)}
    policy, learns = learner(micro_model, Hardware(zero_stage=zero_stage), **asked)
    batch = groups(0, **asked)
    metrics = learns.learn(batch, 1.0)
    found = gradient(policy)

    student, teacher = (AutoModelForCausalLM.from_pretrained(path) for path in (micro_model, learnt_model))
    terms = []
    for r, valid in ((r, ok) for g in batch for r, ok in zip(g.rollouts, g.valid, strict=True)):
        if valid:
            ids = torch.tensor([[*r.prompt, *r.response]])
            own, other = (
                model(ids).logits[0, len(r.prompt) - 1 : -1].log_softmax(-1).gather(1, ids[0, len(r.prompt) :, None])
                for model in (student, teacher)
            )
            terms.append(0.5 * (own - other.detach()) ** 2)
    loss = torch.cat(terms).mean()
    loss.backward()
    assert metrics["kl"] == pytest.approx(loss.item(), rel=1e-4) and metrics["kl"] > 1
    for name, weight in student.named_parameters():
        assert torch.allclose(found[name], weight.grad, rtol=1e-3, atol=1e-5), name


@pytest.mark.slow
def test_a_student_comes_nearer_to_its_teacher_without_rewards(learnt_model, tmp_path):
    """A damaged copy of the teacher, by its own responses."""
    model = AutoModelForCausalLM.from_pretrained(learnt_model)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.03 * torch.randn_like(weight)
    student = shutil.copytree(learnt_model, tmp_path / "student")
    model.save_pretrained(student)
    asked = Stage(
        name="distill", domain="math", max_response_tokens=12, steps=24, prompts_per_batch=8, rollouts=4,
        learning_rate=2e-3, lr_scheduler_type="cosine", **TERM,
        advanced=StageDetails(reference_model=str(learnt_model)),
    )  # fmt: skip
    problems = {"math": to_table(sums(40))}
    trained = train_stage(asked, student, problems, tmp_path / "work")
    before, after = (divergence(each, learnt_model) for each in (student, trained))
    assert after < 0.7 * before  # 0.031 and 0.016 nats


@torch.no_grad()
def divergence(student: Path, teacher: Path) -> float:
    """The exact KL of the next token, over the texts that the teacher learned from."""
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    models = [AutoModelForCausalLM.from_pretrained(path) for path in (student, teacher)]
    found = []
    for problem in sums(40):
        turns = [{"role": "user", "content": problem.prompt}]
        prompt = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(f"{prompt}\\boxed{{{problem.answer}}}", add_special_tokens=False, return_tensors="pt").input_ids
        own, other = (model(ids).logits[0, -3:].log_softmax(-1) for model in models)
        found.append(float((own.exp() * (own - other)).sum(-1).mean()))
    return sum(found) / len(found)


def test_a_model_with_other_tokens_is_refused(alone, micro_model, tmp_path):
    create(NewModelConfig(vocabulary=300), ["other words"], 1, tmp_path / "other")
    with pytest.raises(RatchetError, match="other has another tokenizer than the policy"):
        Policy(micro_model, Hardware(), Optimizer(), str(tmp_path / "other"))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"advantage": "none"}, "advantage: none leaves the KL term alone to train"),
        ({"reference_model": "m"}, "advanced.reference_model is the model of the KL term: give a kl_coefficient"),
        (TERM | {"reference_model": "m", "interventions": [{"when": {"at_step": 1}, "do": "reset"}]},
         "interventions.0: reset makes the policy the reference"),
    ],
)  # fmt: skip
def test_settings_that_would_do_nothing_are_refused(settings, fault):
    with pytest.raises(ValueError, match=fault):
        stage(**settings)


def test_the_plan_counts_the_named_model(micro_model, tmp_path):
    """A teacher with four times the layers takes about four times the memory, and longer to score."""
    large = Path(micro_model).with_name("large")
    config = NewModelConfig.model_validate({"hidden_size": 256, "layers": 8, "vocabulary": 512})
    create(config, [p.prompt for p in sums(40)], 1, large)
    shape, recipe = shape_of(micro_model), load_recipe("tiny")

    def planned(**settings):
        asked = stage(max_response_tokens=64, **settings)
        return estimate(shape, asked, recipe.training, parse_machine("1x1xH100"))

    own, named = planned(**TERM), planned(**TERM, reference_model=str(large))
    assert own.updating["reference"] == shape.parameters * 4
    assert named.updating["reference"] == shape_of(str(large)).parameters * 4
    assert named.seconds["update"] > 2 * own.seconds["update"]


def test_the_named_model_is_in_the_key_by_its_content(micro_model, tmp_path):
    def key(model: Path) -> str:
        first = "training.stages.0"
        settings = [f"{first}.kl_coefficient=0.1", f"{first}.advanced.reference_model={model}"]
        with plan_run(load_recipe(MINI, settings), load_settings(str(tmp_path / "home"))) as run:
            pipeline(run)
        return next(step.output.key for step in run.plan if step.title == "train math-24")

    one, same, other = (Path(shutil.copytree(micro_model, tmp_path / name)) for name in "abc")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-5}))
    assert key(one) == key(same) != key(other)
