"""The step in a curation: planned, taken alone, judged over HTTP, shown."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from ratchet.flows.curate import curate
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.tasks.pipeline_run import Steps, plan_run
from ratchet.verifiers.errors import RatchetError
from tests.flows.conftest import MINI
from tests.infra.judging_endpoint import JudgingEndpoint

SETTINGS = (
    "curation.math.advanced.paraphrases="
    "{by: words, min_similarity: 0.1, judge: {kind: openai, model: rules, base_url: '%s'}}"
)


def planned(home, steps=Steps(), *overrides):
    with plan_run(load_recipe(MINI, overrides), load_settings(home), steps) as run:
        curate.fn(run.recipe, "math", steps)
    return [step.title for step in run.plan if not step.left_out]


def test_it_is_off_until_the_recipe_asks_for_it(tmp_path):
    assert "paraphrases math" not in planned(tmp_path)
    titles = planned(tmp_path, Steps(), "curation.math.advanced.paraphrases.by=words")
    assert titles[titles.index("decontaminate math") :][1:3] == ["paraphrases math", "deduplicate math"]
    with pytest.raises(RatchetError, match=r"paraphrases cannot run: .*curation\.math\.advanced\.paraphrases\.by"):
        planned(tmp_path, Steps(only="paraphrases"))


@pytest.mark.slow
def test_the_step_alone_judged_over_http(finished_home, ratchet, ready_home):
    shutil.copytree(finished_home / "artifacts", ready_home / "artifacts", ignore=shutil.ignore_patterns(".drafts"))
    endpoint = JudgingEndpoint()
    endpoint.answers = lambda item, row: "SAME" if len(row) % 3 == 0 else "DIFFERENT"
    judged = SETTINGS % endpoint.url
    try:
        done = ratchet("curate", "math", MINI, "--only", "paraphrases", "--home", ready_home, "--set", judged)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "answers to ask for" in done.stdout and set(endpoint.asked.values()) == {1}
        (made,) = (ready_home / "artifacts" / "problems").glob("math-paraphrases-*")
        manifest = json.loads((made / "manifest.json").read_text())
        dropped, pairs = pq.read_table(made / "rejected.parquet"), pq.read_table(made / "shortlist.parquet")
        assert manifest["summary"]["pairs"] == len(pairs) >= manifest["metrics"]["answers"] == endpoint.asked.total()
        assert manifest["summary"]["dropped"] == {"judged_same": len(dropped)} and len(dropped) > 0
        assert json.loads(dropped["evidence"][0].as_py())["said"] == "SAME"
    finally:
        endpoint.close()
