"""Evaluation of a model behind an endpoint that misbehaves: a real HTTP server on loopback."""

import json
from collections import Counter
from itertools import cycle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.openai_engine import OpenAIEngine
from ratchet.data_curation.base.problem_table import to_table
from ratchet.evaluation import VERSION
from ratchet.evaluation.endpoint import EndpointGenerations
from ratchet.evaluation.main import main
from ratchet.evaluation.spec import load_plan, read_spec
from ratchet.evaluation.tables import score_rows
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem, problem_id
from tests.evaluation.conftest import first_benchmark, write


@pytest.fixture
def asked(spec, server, tmp_path):
    spec["model"] = {"identity": "m", "endpoint": {"base_url": server.url, "model": "m", "concurrency": 4}}
    return write(first_benchmark(spec, samples=2), tmp_path)


def generations(spec_path, server, notes: list[str], patience_s: float = 60.0) -> EndpointGenerations:
    engine = OpenAIEngine("m", server.url, None, 4, backoff_s=0.0001, patience_s=patience_s, tell=notes.append)
    return EndpointGenerations(load_plan(read_spec(spec_path)), notes.append, engine)


def test_an_outage_costs_time_and_no_answer_is_paid_for_twice(asked, server):
    server.down, notes = 25, []
    with generations(asked, server, notes) as source:
        tables = list(source.stream())
        assert pa.concat_tables(source.in_order()).num_rows == sum(map(len, tables)) == source.total == 14
    assert len(server.answered - Counter()) == 14 and max(server.answered.values()) == 1
    assert notes and "503" in notes[0]
    assert {t for table in tables for t in table["finish_reason"].to_pylist()} == {"stop"}


@pytest.mark.parametrize(
    "around", [{"system_prompt": "Be brief."}, {"chat_template_kwargs": {"enable_thinking": False}}]
)
def test_what_is_around_a_user_turn_is_asked_and_has_responses_of_its_own(spec, server, tmp_path, around):
    plain = load_plan(read_spec(write(first_benchmark(spec, samples=1), tmp_path)))
    spec["prompt"] = {**spec["prompt"], **around}
    spec["model"] = {"identity": "m", "endpoint": {"base_url": server.url, "model": "m", "concurrency": 4}}
    file = write(first_benchmark(spec, samples=1), tmp_path)
    with generations(file, server, []) as source:
        assert pa.concat_tables(source.stream()).num_rows == source.total
    assert [*server.around] == [json.dumps(around)]
    keys, others = ({a.key for batch in each.batches for a in batch.requests} for each in (plain, source.plan))
    assert not keys & others


def test_one_question_that_always_fails_does_not_hold_up_the_others(asked, server):
    plan = load_plan(read_spec(asked))
    messages = list(dict.fromkeys(a.message for batch in plan.batches for a in batch.requests))
    server.broken, server.refused = {messages[0]}, {messages[1]}
    with generations(asked, server, []) as source:
        rows = pa.concat_tables(source.stream()).to_pylist()
        again = pa.concat_tables(source.in_order()).to_pylist()
    assert len(rows) == 14 and sorted(map(str, rows)) == sorted(map(str, again))
    failed = [row for row in rows if row["finish_reason"] == "error"]
    assert len(failed) == 4 and {"500" in row["text"] or "400" in row["text"] for row in failed} == {True}
    assert max(times for (question, _), times in server.asked.items() if question == messages[1]) == 1
    server.broken = server.refused = set()
    with generations(asked, server, []) as source:  # failures were not kept: they are asked again
        assert {r for table in source.stream() for r in table["finish_reason"].to_pylist()} == {"stop"}


def test_patience_ends_and_what_was_answered_is_kept(asked, server):
    server.most = 9
    with generations(asked, server, [], patience_s=3.0) as source:
        with pytest.raises(RatchetError, match=r"has accepted no call for .*503.* Finished answers are kept"):
            list(source.stream())
    server.most = 10**9
    with generations(asked, server, []) as source:
        assert sum(map(len, source.stream())) == 14
    assert server.answered.total() == 14


@pytest.mark.parametrize("counts", [True, False])
def test_the_whole_evaluation_of_an_endpoint(asked, server, counts):
    server.counts = counts
    assert main(asked) == 0
    scores = json.loads((asked.parent / "work/scores.json").read_text())
    assert 0 < scores["benchmarks"]["small-math"]["pass_at"]["1"]["value"] < 1
    assert scores["benchmarks"]["small-math"]["response_tokens"]["all"]["mean"] == (4 if counts else None)
    assert scores["model"]["endpoint"].endswith("/v1#m") and scores["settings"]["dtype"] is None
    assert scores["settings"]["step_version"] == VERSION
    assert scores["benchmarks"]["small-math"]["verification"] == {"math": "strict", "own_code": {}}


def test_answers_without_a_text_are_counted_and_the_score_has_an_interval(asked, server):
    server.said = cycle([{"content": ""}, {"content": None}, {"content": None, "reasoning_content": "hm"}])
    assert main(asked) == 0
    scores = json.loads((asked.parent / "work/scores.json").read_text())["benchmarks"]["small-math"]
    point = scores["pass_at"]["1"]
    assert scores["empty_rate"] == 1.0 and point["value"] == point["low"] == 0
    assert point["high"] > 0.3  # seven questions say little


def test_an_endpoint_whose_context_is_shorter_than_the_limit_says_so(asked, server):
    """Every call is refused: nothing is scored, and the error is the endpoint's own message."""
    plan = load_plan(read_spec(asked))
    server.refused = {a.message for batch in plan.batches for a in batch.requests}
    assert main(asked) == 2
    status = json.loads((asked.parent / "work/status.json").read_text())
    assert status["state"] == "failed" and "14 of 14 responses" in status["message"]
    assert "400: no, maximum context length" in status["message"] and not (asked.parent / "work/scores.json").exists()


def test_what_a_domain_reports_of_its_own_stands_in_the_scores_and_the_report(spec, server, tmp_path):
    given = [
        ("Be quiet.", [{"id": "change_case:english_lowercase"}, {"id": "punctuation:no_comma"}]),
        ("No commas.", [{"id": "punctuation:no_comma"}]),
    ]
    problems = [
        Problem(problem_id("instructions", text), "instructions", text, tests=json.dumps(tests))
        for text, tests in given
    ]
    pq.write_table(to_table(problems), tmp_path / "problems.parquet")
    text = "the weather was fine this morning and we walked to the river"
    server.replies = {
        "Be quiet.": iter([{"content": f"Sure, here you are:\n{text}"}, {"content": text}]),
        "No commas.": iter([{"content": "One, two."}, {"content": "Three.", "finish_reason": "length"}]),
    }
    spec["model"] = {"identity": "m", "endpoint": {"base_url": server.url, "model": "m", "concurrency": 1}}
    spec["evaluation"]["benchmarks"] = [{"name": "calm", "domain": "instructions", "samples": 2}]
    spec["problems"] = {"calm": str(tmp_path / "problems.parquet")}
    spec["set_aside"] = {"calm": {}}
    assert main(write(spec, tmp_path)) == 0, (tmp_path / "work/status.json").read_text()
    scores = json.loads((tmp_path / "work/scores.json").read_text())["benchmarks"]["calm"]
    assert scores["pass_at"]["1"]["value"] == 0.25
    assert scores["metrics"] == {
        "prompt_strict": 1 / 4, "instruction_strict": 2 / 6, "prompt_loose": 2 / 4, "instruction_loose": 4 / 6
    }  # fmt: skip
    assert score_rows(scores)[0]["prompt loose"] == "0.500"
    graded = pq.read_table(tmp_path / "work/generations.parquet").to_pylist()
    assert [row["fraction"] for row in graded] == [0, 1, 0, 0]
