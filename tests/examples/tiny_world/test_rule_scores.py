"""The promise of the tiny world: every rule of curation finds what it is for, and nothing else.

Rules that only read are scored on the tiny recipe's world, those that run code on a smaller one.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.code_tests.validation import validate_tests
from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.deduplication.copies import deduplicate
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.data_curation.teacher.attempts import collect_attempts, problem_prompts
from ratchet.data_curation.teacher.majority_vote import vote
from ratchet.examples.tiny_world.teacher import ProceduralTeacher
from ratchet.examples.tiny_world.world import generate_world
from ratchet.infra.recipe.load import load_recipe
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.examples.tiny_world.rule_scores import score_rules

RECIPE = load_recipe(Path(__file__).parents[3] / "recipes" / "tiny.yaml")
NEEDS_SANDBOX = ("validate_tests", "difficulty")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    directory = tmp_path_factory.mktemp("world")
    generate_world(directory, 0, **RECIPE.generate["tiny-world"].settings)
    return directory


@pytest.mark.parametrize("domain", ["math", "code"])
def test_precision_and_recall_of_each_rule(world, tmp_path, domain):
    settings = RECIPE.curation[domain]
    items = read_problems(world / f"{domain}_benchmark.parquet", domain).kept
    splits = [read_problems(world / f"{domain}_raw.parquet", domain)]
    splits.append(filter_by_rules(splits[-1].kept, settings.rules))
    rule = settings.decontaminate.model_copy(update={"ngram": plan_of(domain).ngram})
    splits.append(decontaminate(splits[-1].kept, items, rule))
    splits.append(deduplicate(splits[-1].kept, settings.deduplicate))
    if domain == "math":
        table = splits[-1].kept
        attempts = tmp_path / "attempts.parquet"
        collect_attempts(
            problem_prompts(lambda: [table], RECIPE.model.prompt),
            ProceduralTeacher(),
            settings.teacher,
            tmp_path / "journal.jsonl",
            0,
            attempts,
        )
        splits.append(vote(table, pq.ParquetFile(attempts).iter_batches()))
    truth = pq.read_table(world / f"{domain}_truth.parquet")
    scores = score_rules(truth, pa.concat_tables([split.rejected for split in splits]), splits[-1].kept)
    scored = [score for score in scores if not score.rule.startswith(NEEDS_SANDBOX)]
    assert len(scored) >= 12
    check(scored)


def test_precision_and_recall_of_test_validation(tmp_path):
    settings = RECIPE.curation["code"]
    generate_world(tmp_path, 1, math_rows=20, code_rows=240, benchmark_problems=8)
    splits = [read_problems(tmp_path / "code_raw.parquet", "code")]
    splits.append(filter_by_rules(splits[-1].kept, settings.rules))
    with VerifierPool(workers=2) as pool:
        splits.append(validate_tests(splits[-1].kept, settings.validation, pool))
    truth = pq.read_table(tmp_path / "code_truth.parquet")
    scores = score_rules(truth, pa.concat_tables([split.rejected for split in splits]), splits[-1].kept)
    scored = [score for score in scores if score.rule.startswith("validate_tests")]
    assert len(scored) == 3 and all(score.expected >= 6 for score in scored)
    check(scored)


def check(scores):
    for score in scores:
        assert score.precision is None or score.precision >= 0.95, score.rule
        assert score.recall is None or score.recall >= 0.95, score.rule
