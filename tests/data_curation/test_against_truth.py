"""The tiny world knows what is wrong with each of its rows; the steps that read statements must find it."""

from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_curation.decontamination import decontaminate
from data_curation.deduplication import deduplicate
from data_curation.normalisation import read_and_normalise
from data_curation.readers import read_benchmark
from data_curation.rules import filter_by_rules
from data_curation.tiny_world.score import score_rules
from data_curation.tiny_world.world import generate_world
from infra.recipe.model import Decontamination, Deduplication, Rules, TinyWorld

NEAR = Deduplication(ngram=3, jaccard=0.6)  # statements of twenty words: one changed word is a tenth of them


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(("domain", "ngram"), [("math", 9), ("code", 14)])
def test_precision_and_recall_of_what_reads_statements(tmp_path, domain, ngram, seed):
    generate_world(tmp_path, TinyWorld(math_problems=1200, code_problems=800, benchmark_problems=64), seed)
    steps = [read_and_normalise([tmp_path / f"{domain}_raw.parquet"], domain)]
    steps.append(filter_by_rules(steps[-1].kept, domain, Rules()))
    items = read_benchmark(tmp_path / f"{domain}_benchmark.parquet", domain).kept
    settings = Decontamination(ngram=ngram, released_after=date(2024, 8, 1))
    steps.append(decontaminate(steps[-1].kept, items, settings))
    steps.append(deduplicate(steps[-1].kept, NEAR))
    truth = pq.read_table(tmp_path / f"{domain}_truth.parquet")
    scores = score_rules(truth, pa.concat_tables([split.rejected for split in steps]), steps[-1].kept)
    judged = [s for s in scores if s.rule.split(":")[0] in ("normalise", "rules", "decontaminate", "deduplicate")]
    assert len(judged) >= 11
    low = [
        s for s in judged if (s.rejected >= 10 and (s.precision or 0) < 0.95) or (s.expected and (s.recall or 0) < 0.95)
    ]
    assert not low
