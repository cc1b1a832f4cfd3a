"""The step in a curation: planned, taken alone, decided over HTTP."""

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

SETTINGS = "curation.math.advanced.exclusions={kind: openai, model: rules, base_url: '%s'}"


def planned(home, steps=Steps(), *overrides):
    with plan_run(load_recipe(MINI, overrides), load_settings(home), steps) as run:
        curate.fn(run.recipe, "math", steps)
    return [step.title for step in run.plan if not step.left_out]


def test_it_is_off_until_the_recipe_asks_for_it(tmp_path):
    assert "exclusions math" not in planned(tmp_path)
    titles = planned(tmp_path, Steps(), SETTINGS % "http://127.0.0.1:9/v1")
    assert titles[titles.index("normalise math") :][1:3] == ["exclusions math", "rules math"]
    with pytest.raises(RatchetError, match=r"exclusions cannot run: .*curation\.math\.advanced\.exclusions\.kind"):
        planned(tmp_path, Steps(only="exclusions"))


@pytest.mark.slow
def test_the_step_alone_decided_over_http(finished_home, ratchet, ready_home):
    shutil.copytree(finished_home / "artifacts", ready_home / "artifacts", ignore=shutil.ignore_patterns(".drafts"))
    endpoint = JudgingEndpoint()
    endpoint.answers = lambda _, asked: "figure: NO\nsub_questions: NO\nproof: NO"
    decided = SETTINGS % endpoint.url
    try:
        done = ratchet("curate", "math", MINI, "--only", "exclusions", "--home", ready_home, "--set", decided)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "answers to ask for" in done.stdout and set(endpoint.asked.values()) == {1}
        (made,) = (ready_home / "artifacts" / "problems").glob("math-exclusions-*")
        manifest = json.loads((made / "manifest.json").read_text())
        metadata = pq.read_table(made / "kept.parquet")["metadata"].to_pylist()
        labeled = [text for text in metadata if json.loads(text)["exclusions"]]
        assert len(labeled) == manifest["metrics"]["asked"] >= endpoint.asked.total() == manifest["metrics"]["answers"]
        assert manifest["metrics"]["undecided"] == 0 < manifest["metrics"]["does_not_apply"]
    finally:
        endpoint.close()
