"""Validation scores: sampled as the evaluation does, with pass@N beside the mean."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.base.prompts import PromptFormat, prompt_ids
from ratchet.data_curation.base.protocol import Completion, Sampling
from ratchet.evaluation.benchmarks import load_problems
from ratchet.infra.recipe.evaluation import Benchmark, BenchmarkDetails, Evaluation
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.recipe.training import Stage
from ratchet.training import loop, process
from ratchet.training.loop import Validation
from ratchet.training.rollout import judged
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError
from tests.training.conftest import sums


class Worker:
    """Judged counts and rewards of each problem, by its place; what it was asked to sample with."""

    def __init__(self, counts):
        self.counts, self.samplings = counts, []

    def scores(self, problems, samples, sampling, seed_parts, graded):
        self.samplings.append((samples, sampling))
        for problem, (passed, verdicts, *reward) in zip(problems, self.counts, strict=True):
            yield problem.problem_id, (passed, verdicts, reward[0] if reward else float(passed))


def stage(rollouts: int, **weights: float) -> Stage:
    settings = {"name": "s", "domain": "math", "steps": 1, "max_response_tokens": 12, "validation": weights}
    return Stage.model_validate(settings | {"advanced": {"validation_rollouts": rollouts}})


def test_it_samples_as_the_evaluation_does_up_to_the_stages_length(alone):
    worker = Worker([(1, 4), (0, 4), (4, 4), (2, 2)])  # two infra errors in the last
    validation = Validation(0, {"held": worker}, {"held": sums(4)}, Evaluation(temperature=0.6, top_p=0.95), 0.2)
    metrics = validation.run(stage(4))
    assert worker.samplings == [(4, Sampling(0.6, 0.95, max_tokens=12))]
    assert metrics == {"validation": pytest.approx((0.25 + 0 + 1 + 1) / 4), "validation/pass_at_4": 0.75}


def test_a_graded_reward_is_the_score_and_no_pass(alone):
    metrics = Validation(0, {"a": Worker([(0, 2, 0.5), (1, 2, 1.25)])}, {"a": sums(2)}, Evaluation(), 0.2).run(stage(2))
    assert metrics == {"validation": pytest.approx((0.25 + 0.625) / 2), "validation/pass_at_2": 0.5}


def test_several_benchmarks_are_weighted_in_both_scores(alone):
    worker = Worker([(1, 2), (0, 2)])
    metrics = Validation(0, {"a": worker, "b": worker}, {"a": sums(2), "b": sums(2)}, Evaluation(), 0.2).run(
        stage(2, a=3, b=1)
    )
    assert metrics["validation"] == metrics["validation/a"] == 0.25
    assert metrics["validation/pass_at_2"] == metrics["validation/b/pass_at_2"] == 0.5


def test_a_stage_without_a_benchmark_of_its_own_validates_what_it_keeps(alone):
    kept = stage(2).model_copy(update={"keep": {"math": 0.1}, "mix": {"code": 1.0}})
    metrics = Validation(0, {"a": Worker([(1, 2), (0, 2)])}, {"a": sums(2)}, Evaluation(), 0.2).run(kept)
    assert metrics["validation"] == metrics["kept/math"] == 0.25


def test_one_response_has_no_pass_at_n(alone):
    metrics = Validation(0, {"a": Worker([(1, 1), (0, 1)])}, {"a": sums(2)}, Evaluation(), 0.2).run(stage(1))
    assert metrics == {"validation": 0.5}


def test_an_outage_of_the_judge_is_no_failure_of_the_model(alone):
    some = Worker([(1, 2), (1, 2), (2, 2), (1, 2), (0, 0)])
    assert Validation(0, {"a": some}, {"a": sums(5)}, Evaluation(), 0.2).run(stage(2))["validation"] == 5 / 8
    assert Validation(0, {"a": Worker([(0, 0)])}, {"a": sums(1)}, Evaluation(), 1.0).run(stage(2))["validation"] == 0
    with pytest.raises(RatchetError, match="4 of 4 verdicts of validation on a were infrastructure errors"):
        Validation(0, {"a": Worker([(0, 0)] * 2)}, {"a": sums(2)}, Evaluation(), 0.2).run(stage(2))


def test_it_asks_what_the_evaluation_asks_and_nothing_of_the_other_part(tmp_path):
    """Also where a file has a question whose reference cannot be trusted, and a part has only easy ones."""
    rows = [replace(p, metadata=f'{{"level": "Level {n % 5}"}}') for n, p in enumerate(sums(30))]
    twice = sorted(rows, key=lambda p: p.problem_id)[3]
    rows.append(replace(twice, answer="0"))
    pq.write_table(to_table(rows), tmp_path / "kept.parquet")
    for easy in ({}, {"max_difficulty": 2}):
        first, second = (
            Benchmark(name="b", domain="math", advanced=BenchmarkDetails.model_validate({"part": [n, 2], **own}))
            for n, own in ((1, easy), (2, {}))
        )
        validated = {problem.problem_id for problem in process._questions(first, rows)}
        assert twice.problem_id not in validated
        assert validated == {problem.problem_id for problem in load_problems(first, tmp_path / "kept.parquet")}
        assert not validated & {problem.problem_id for problem in load_problems(second, tmp_path / "kept.parquet")}


def test_a_benchmark_is_asked_and_read_as_in_its_evaluation(alone, micro_model, policy, pool, tmp_path, monkeypatch):
    """With its own prompt and answer pattern, each of two with the same questions."""
    own = {"prompt": {"math": "{prompt} =", "response_prefix": " "}, "advanced": {"answer_pattern": "####"}}
    named = [{"name": name, "domain": "math", "path": "x", **fields} for name, fields in (("own", own), ("as", {}))]
    settings = {"name": "s", "domain": "math", "steps": 1, "max_response_tokens": 60, "prompts_per_batch": 2,
                "validation": {"own": 1, "as": 1}}  # fmt: skip
    recipe = Recipe.model_validate(
        {
            "name": "x", "model": {"prompt": {"math": "{prompt}"}}, "training": {"stages": [settings]},
            "evaluation": {"benchmarks": named},
        }
    )  # fmt: skip
    pq.write_table(to_table(sums(9)), tmp_path / "x.parquet")
    files = {name: tmp_path / "x.parquet" for name in ("own", "as")}
    spec = TrainingSpec.of(
        recipe, kind="stage", stage="s", model_dir=str(micro_model), work_dir=tmp_path / "work",
        problems={"math": tmp_path / "x.parquet"}, validation=files,
    )  # fmt: skip
    checks = []
    monkeypatch.setattr(loop, "train", lambda *given: checks.append(given[4]))
    process._stage(spec)
    asked = PromptFormat(math="{prompt} =", response_prefix=" ")
    [validation] = checks
    for name, prompt in (("own", asked), ("as", PromptFormat(math="{prompt}"))):
        problems, worker = validation._problems[name], validation._workers[name]
        assert worker.prompts(problems) == prompt_ids(policy.tokenizer, problems, prompt)
    longest = max(map(len, prompt_ids(policy.tokenizer, sums(9), PromptFormat(math="{prompt}"))))
    monkeypatch.setattr(type(policy), "positions", longest + 60)  # not one more
    with pytest.raises(RatchetError, match="no problem of own fits"):
        process._stage(spec)
    answers = [Completion((p.problem_id, 0), f"So\n#### {p.answer}", "stop", 1) for p in sums(3)]
    for pattern, passed in (("####", True), ("boxed", False), ("last number", True), ("choice", False)):
        verdicts = [v for *_, v in judged(pool, "", zip(sums(3), answers, strict=True), pattern)]
        assert [v.passed for v in verdicts] == [passed] * 3, pattern
