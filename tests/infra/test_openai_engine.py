"""The engine against a real HTTP server that misbehaves on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ratchet.data_curation.base.openai_engine import OpenAIEngine
from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.verifiers.errors import RatchetError
from tests.infra.misbehaving_endpoint import Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def _engine(endpoint: Endpoint, **settings) -> OpenAIEngine:
    return OpenAIEngine("m", endpoint.url, "key", **{"backoff_s": 0.01} | settings)


def _ask(engine: OpenAIEngine, *questions: str) -> dict[str, object]:
    requests = [Request(key=q, seed=7, messages=({"role": "user", "content": q},)) for q in questions]
    try:
        return {c.key: c for c in engine.generate(requests, Sampling(0.6, 0.95, 0, 50))}
    finally:
        engine.close()


ANSWERS = {
    "plain a": ("hello plain a", "stop"),
    "long b": ("hello long b", "length"),
    "thinking c": ("<think>\none and one\n</think>\ntwo", "stop"),
    "whole d": ("hello whole d", "stop"),
    "line\u2028e\x85f": ("hello line\u2028e\x85f", "stop"),
    "eos x": ("hello eos x", "stop"),
    "parts x": ("<think>\nhm\n</think>\ntwo", "stop"),
}
EMPTY = ("blank x", "null x", "pondering x")


def test_answers_come_back_under_their_keys_with_text_tokens_and_reason(endpoint):
    answers = _ask(_engine(endpoint), *ANSWERS, *EMPTY, "declined x")
    assert {question: (answers[question].text, answers[question].finish_reason) for question in ANSWERS} == ANSWERS
    assert answers["plain a"].tokens == answers["whole d"].tokens == 7 and answers["plain a"].prompt_tokens == 3
    assert {question: answers[question].empty for question in (*EMPTY, *ANSWERS)} == {
        **dict.fromkeys(EMPTY, True), **dict.fromkeys(ANSWERS, False)
    }  # fmt: skip
    assert answers["declined x"].finish_reason == "refused" and "I will not." in answers["declined x"].error


def test_sampling_and_seed_reach_the_endpoint(endpoint):
    _ask(_engine(endpoint), "plain")
    sent = endpoint.bodies[0]
    expected = {"model": "m", "temperature": 0.6, "top_p": 0.95, "max_tokens": 50, "seed": 7}
    assert {name: sent[name] for name in expected} == expected
    assert "top_k" not in sent


@pytest.mark.parametrize(
    "kind",
    ["limited", "dated", "broken", "garbled", "half", "error", "empty", "page", "dropped", "newer", "overloaded"],
)
def test_what_may_pass_is_asked_again(endpoint, kind):
    answers = _ask(_engine(endpoint), f"{kind} x")
    assert answers[f"{kind} x"].text == f"hello {kind} x"
    assert endpoint.calls[f"{kind} x"] == (3 if kind == "broken" else 2)


@pytest.mark.parametrize("words", ["Unsupported parameter: '{}'", "Unrecognized request argument supplied: {}", "{}"])
def test_what_an_endpoint_does_not_take_is_left_out_once_it_is_known(endpoint, words):
    endpoint.lacks, endpoint.words, said = {"seed", "stream_options", "temperature", "top_p"}, words, []
    engine = _engine(endpoint, concurrency=1, tell=said.append)
    answers = _ask(engine, "plain a", "plain b", "plain c")
    assert {c.finish_reason for c in answers.values()} == {"stop"}
    assert len(endpoint.bodies) == 4 + 3 and not endpoint.lacks & endpoint.bodies[-1].keys()
    assert engine.traffic.learned == said and len(said) == 4 and "does not take seed" in " ".join(said)


def test_a_value_out_of_range_is_told_and_not_left_out(endpoint):
    endpoint.lacks, endpoint.words = {"temperature"}, "{} must be between 0 and 1"
    with pytest.raises(RatchetError, match="temperature must be between 0 and 1"):
        _ask(_engine(endpoint, concurrency=1), *(f"plain {i}" for i in range(9)))


def test_no_seed_is_longer_than_providers_take(endpoint):
    engine = _engine(endpoint)
    list(engine.generate([Request(0, 2**63 - 1, messages=({"role": "user", "content": "plain"},))], Sampling()))
    engine.close()
    assert 0 <= endpoint.bodies[0]["seed"] < 2**31


def test_calls_put_off_are_told_by_their_number(endpoint):
    endpoint.fault, endpoint.faults, said = "busy", 25, []
    asked = [f"plain {i}" for i in range(30)]
    assert len(_ask(_engine(endpoint, concurrency=4, backoff_s=0.001, tell=said.append), *asked)) == 30
    assert ["retrying 1 call:" in said[0], "retrying 10 calls:" in said[1], len(said)] == [True, True, 2]


def test_retry_after_holds_back_every_call(endpoint):
    engine = _engine(endpoint, concurrency=1)
    answers = _ask(engine, "limited x", "plain y")
    assert {c.finish_reason for c in answers.values()} == {"stop"}
    assert endpoint.times[1] - endpoint.times[0] >= 0.29  # a pause may be longer, on any machine, and not shorter


def test_what_cannot_succeed_is_an_error_and_is_not_asked_again(endpoint):
    answers = _ask(_engine(endpoint, concurrency=1), "plain z", "refused x", "filtered y")
    assert answers["refused x"].finish_reason == "error" and "bad temperature" in answers["refused x"].error
    assert answers["filtered y"].finish_reason == "refused" and "content_filter" in answers["filtered y"].error
    assert answers["plain z"].finish_reason == "stop"
    assert endpoint.calls["filtered y"] == 1 and endpoint.calls["refused x"] == 2, "once without the temperature"
    assert "temperature" in endpoint.bodies[0], "what was refused without it too is not its fault"


def test_prompts_that_are_too_long_are_refused_one_by_one(endpoint):
    answers = _ask(_engine(endpoint, concurrency=1), *(f"endless {i}" for i in range(9)), "plain z")
    assert [c.finish_reason for c in answers.values()] == 9 * ["refused"] + ["stop"]
    assert "maximum context length" in answers["endless 0"].error and set(endpoint.calls.values()) == {1}


def test_an_endpoint_that_never_makes_sense_is_given_up(endpoint):
    answer = _ask(_engine(endpoint, backoff_s=0.001), "nonsense x")["nonsense x"]
    assert answer.finish_reason == "error" and "not a chat completion" in answer.error and "tries: 8" in answer.error
    assert endpoint.calls["nonsense x"] == 8


def test_a_paid_call_that_times_out_is_not_sent_twice(endpoint, monkeypatch):
    monkeypatch.setattr("ratchet.data_curation.base.openai_engine.ANSWER_S", 1.0)
    answer = _ask(_engine(endpoint), "stuck x")["stuck x"]
    assert answer.finish_reason == "error" and "no whole answer within 1 s" in answer.error
    assert endpoint.calls["stuck x"] == 1


def test_concurrency_is_bounded_and_used_and_connections_are_shared(endpoint):
    answers = _ask(_engine(endpoint, concurrency=4), *(f"steady {i}" for i in range(24)))
    assert len(answers) == 24
    assert 2 <= endpoint.most_open <= 4
    assert endpoint.connections <= 6


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("keyless", r"key is not accepted.*Check the model's name, base_url, key"),
        ("poor", "the quota is used up"),
        ("later", "asks to come back in 120 minutes"),
    ],
)
def test_what_no_call_can_pass_ends_the_run_with_what_to_do(endpoint, kind, reason):
    with pytest.raises(RatchetError, match=reason):
        _ask(_engine(endpoint, concurrency=2), *(f"{kind} {i}" for i in range(20)))
    assert sum(endpoint.calls.values()) <= 2


def test_answers_that_are_coming_in_are_kept_when_the_run_ends(endpoint):
    engine, answers = _engine(endpoint, concurrency=2), []
    requests = [Request(q, 7, messages=({"role": "user", "content": q},)) for q in ("slow a", "keyless b", "plain c")]
    with pytest.raises(RatchetError, match="key is not accepted"):
        for completion in engine.generate(requests, Sampling()):
            answers.append(completion.key)
    engine.close()
    assert "slow a" in answers and "plain c" not in answers


def test_an_endpoint_that_takes_no_request_is_given_up_at_once(endpoint):
    with pytest.raises(RatchetError, match=r"no request is accepted .*bad temperature"):
        _ask(_engine(endpoint, concurrency=1), *(f"refused {i}" for i in range(20)))
    assert len(endpoint.calls) == 3


def test_an_endpoint_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("ratchet.data_curation.base.openai_engine.FIRST_CONTACT_S", 0.1)
    engine = OpenAIEngine("m", "http://127.0.0.1:9/v1", backoff_s=0.001)
    with pytest.raises(RatchetError, match=r"127\.0\.0\.1:9/v1 cannot be reached"):
        _ask(engine, "x")


def test_an_endpoint_is_looked_for_without_a_call_that_costs(endpoint):
    teacher = Teacher(kind="openai", model="m", base_url=endpoint.url)
    OpenAIEngine.check(teacher)
    endpoint.listing = 404  # it keeps no list of its models
    OpenAIEngine.check(teacher)
    endpoint.listing = 401
    with pytest.raises(RatchetError, match=r"127\.0\.0\.1.*the key is not accepted \(401"):
        OpenAIEngine.check(teacher)
    with pytest.raises(RatchetError, match=r"127\.0\.0\.1:9/v1 cannot be reached"):
        OpenAIEngine.check(teacher.model_copy(update={"base_url": "http://127.0.0.1:9/v1"}))
    assert not endpoint.calls


def test_requests_without_messages_are_refused(endpoint):
    engine = _engine(endpoint)
    with pytest.raises(RatchetError, match="needs messages"):
        list(engine.generate([Request(key=1, seed=1, prompt_ids=(1, 2))], Sampling()))
    engine.close()


def test_leaving_early_closes_cleanly(endpoint):
    engine = _engine(endpoint, concurrency=2)
    requests = (Request(key=i, seed=i, messages=({"role": "user", "content": f"steady {i}"},)) for i in range(1000))
    stream = engine.generate(requests, Sampling())
    next(stream)
    stream.close()
    engine.close()
    engine.close()
    assert sum(endpoint.calls.values()) < 20
    assert not engine._thread.is_alive()


def test_a_teacherwithout_key_or_model_is_refused(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(RatchetError, match="NO_SUCH_KEY is not set"):
        OpenAIEngine.for_teacher(Teacher(kind="openai", model="m", api_key_env="NO_SUCH_KEY"))
    with pytest.raises(RatchetError, match="has no model"):
        OpenAIEngine.for_teacher(Teacher(kind="openai"))
