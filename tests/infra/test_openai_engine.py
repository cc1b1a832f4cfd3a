"""The engine against a real HTTP server that misbehaves on demand."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.errors import RatchetError
from infra.inference.openai_engine import OpenAIEngine
from infra.inference.protocol import Request, Sampling
from infra.recipe.model import Teacher


class _Endpoint:
    """Answers "hello <question>"; the question's first word says how to fail first."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bodies: list[dict] = []
        self.times: list[float] = []
        self.open = self.most_open = self.connections = 0
        lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                endpoint.connections += 1

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                question = body["messages"][-1]["content"]
                with lock:
                    endpoint.calls[question] += 1
                    endpoint.bodies.append(body)
                    endpoint.times.append(time.monotonic())
                    endpoint.open += 1
                    endpoint.most_open = max(endpoint.most_open, endpoint.open)
                try:
                    endpoint.answer(self, question, endpoint.calls[question])
                finally:
                    with lock:
                        endpoint.open -= 1

            def reply(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
                data = text.encode()
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, handler, question: str, call: int) -> None:
        kind = question.split()[0]
        message = {"role": "assistant", "content": f"hello {question}"}
        reason = "stop"
        if kind == "limited" and call == 1:
            return handler.reply(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0.3"})
        if kind == "dated" and call == 1:
            return handler.reply(503, "{}", {"Retry-After": formatdate(time.time() + 1, usegmt=True)})
        if kind == "broken" and call <= 2:
            return handler.reply(500, '{"error": {"message": "oops"}}')
        if kind == "garbled" and call == 1:
            return handler.reply(200, '{"choices": [')
        if kind == "empty" and call == 1:
            return handler.reply(200, '{"choices": []}')
        if kind == "page" and call == 1:
            return handler.reply(200, "<html>proxy</html>", {"Content-Type": "text/html"})
        if kind == "nonsense":
            return handler.reply(200, "[]")
        if kind == "dropped" and call == 1:
            handler.close_connection = True
            return handler.connection.shutdown(socket.SHUT_RDWR)
        if kind == "refused":
            return handler.reply(400, '{"error": {"message": "too long a prompt"}}')
        if kind == "keyless":
            return handler.reply(401, '{"error": {"message": "bad key"}}')
        if kind == "slow":
            time.sleep(0.8)
        if kind == "steady":
            time.sleep(0.03)
        if kind == "long":
            reason = "length"
        if kind == "filtered":
            reason = "content_filter"
        if kind == "thinking":
            message |= {"reasoning_content": "one and one", "content": "two"}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 3, "completion_tokens": len(question), "total_tokens": 3}
        handler.reply(200, json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}))


@pytest.fixture
def endpoint() -> Iterator[_Endpoint]:
    endpoint = _Endpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


def _engine(endpoint: _Endpoint, **settings) -> OpenAIEngine:
    return OpenAIEngine("m", endpoint.url, "key", **{"backoff_s": 0.01, "timeout_s": 10.0} | settings)


def _ask(engine: OpenAIEngine, *questions: str) -> dict[str, object]:
    requests = [Request(key=q, seed=7, messages=({"role": "user", "content": q},)) for q in questions]
    try:
        return {c.key: c for c in engine.generate(requests, Sampling(0.6, 0.95, 0, 50))}
    finally:
        engine.close()


def test_answers_come_back_under_their_keys_with_text_tokens_and_reason(endpoint):
    answers = _ask(_engine(endpoint), "plain a", "long b", "thinking c")
    assert (answers["plain a"].text, answers["plain a"].tokens) == ("hello plain a", 7)
    assert [answers[k].finish_reason for k in ("plain a", "long b")] == ["stop", "length"]
    assert answers["thinking c"].text == "<think>\none and one\n</think>\ntwo"


def test_sampling_and_seed_reach_the_endpoint(endpoint):
    _ask(_engine(endpoint), "plain")
    sent = endpoint.bodies[0]
    expected = {"model": "m", "temperature": 0.6, "top_p": 0.95, "max_tokens": 50, "seed": 7}
    assert {name: sent[name] for name in expected} == expected
    assert "top_k" not in sent


@pytest.mark.parametrize("kind", ["limited", "dated", "broken", "garbled", "empty", "page", "dropped"])
def test_what_may_pass_is_asked_again(endpoint, kind):
    answers = _ask(_engine(endpoint), f"{kind} x")
    assert answers[f"{kind} x"].text == f"hello {kind} x"
    assert endpoint.calls[f"{kind} x"] == (3 if kind == "broken" else 2)


def test_retry_after_holds_back_every_call(endpoint):
    engine = _engine(endpoint, concurrency=1)
    answers = _ask(engine, "limited x", "plain y")
    assert {c.finish_reason for c in answers.values()} == {"stop"}
    assert endpoint.times[1] - endpoint.times[0] >= 0.29


def test_what_cannot_succeed_is_an_error_and_is_not_asked_again(endpoint):
    answers = _ask(_engine(endpoint), "refused x", "filtered y", "plain z")
    assert answers["refused x"].finish_reason == "error" and "too long a prompt" in answers["refused x"].error
    assert answers["filtered y"].finish_reason == "error" and "content_filter" in answers["filtered y"].error
    assert answers["plain z"].finish_reason == "stop"
    assert endpoint.calls["refused x"] == endpoint.calls["filtered y"] == 1


def test_an_endpoint_that_never_makes_sense_is_given_up(endpoint):
    answer = _ask(_engine(endpoint, backoff_s=0.001), "nonsense x")["nonsense x"]
    assert answer.finish_reason == "error" and "not a chat completion" in answer.error
    assert endpoint.calls["nonsense x"] == 8


def test_a_paid_call_that_times_out_is_not_sent_twice(endpoint):
    answer = _ask(_engine(endpoint, timeout_s=0.2), "slow x")["slow x"]
    assert answer.finish_reason == "error" and "no answer within 0.2 s" in answer.error
    assert endpoint.calls["slow x"] == 1


def test_concurrency_is_bounded_and_used_and_connections_are_shared(endpoint):
    answers = _ask(_engine(endpoint, concurrency=4), *(f"steady {i}" for i in range(24)))
    assert len(answers) == 24
    assert 2 <= endpoint.most_open <= 4
    assert endpoint.connections <= 6


def test_a_refused_key_stops_everything_with_what_to_do(endpoint):
    with pytest.raises(RatchetError, match=r"key is not accepted.*Check the model's name, base_url and key"):
        _ask(_engine(endpoint), "keyless x", "plain y")


def test_an_endpoint_that_is_not_there_is_named():
    engine = OpenAIEngine("m", "http://127.0.0.1:9/v1", backoff_s=0.001)
    with pytest.raises(RatchetError, match=r"127\.0\.0\.1:9/v1 cannot be reached"):
        _ask(engine, "x")


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


def test_a_teacher_without_key_or_model_is_refused(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(RatchetError, match="NO_SUCH_KEY is not set"):
        OpenAIEngine.for_teacher(Teacher(kind="openai", model="m", api_key_env="NO_SUCH_KEY"))
    with pytest.raises(RatchetError, match="has no model"):
        OpenAIEngine.for_teacher(Teacher(kind="openai"))
