import pyarrow.parquet as pq
import pytest

from ratchet.infra.artifacts import Artifact
from ratchet.infra.errors import RatchetError
from ratchet.infra.problems import to_table
from ratchet.infra.recipe import load_recipe
from ratchet.tasks.training import check_mixes
from tests.training.conftest import sums


def test_a_mix_needs_problems_of_each_domain(tmp_path):
    recipe = load_recipe("tiny")
    problems = {name: Artifact("problems", name, name, tmp_path / name) for name in ("math", "code")}
    check_mixes(recipe, problems)  # a plan: nothing has been curated yet
    for name, rows in (("math", 3), ("code", 0)):
        (tmp_path / name).mkdir()
        pq.write_table(to_table(sums(rows)), problems[name].kept)
    with pytest.raises(RatchetError, match="the mix of code-48 names code, of which curation kept no problem"):
        check_mixes(recipe, problems)
