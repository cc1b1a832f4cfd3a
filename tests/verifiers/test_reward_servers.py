"""Real servers in child processes, and what happens to tickets when they are killed, stopped, full or wrong."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.serving import server as server_module
from ratchet.verifiers.serving.client import RemoteVerifierPool
from ratchet.verifiers.serving.local_pool import VerifierPool, open_pool
from ratchet.verifiers.serving.protocol import TOKEN_VARIABLE, encode_batch
from ratchet.verifiers.serving.server import RewardServer
from ratchet.verifiers.submission import JudgeSettings, Submission
from tests.verifiers.conftest import ENVIRONMENT, SERVE, TOKEN
from tests.verifiers.test_pool import ALGEBRA, CASES, CODE, MATH, fenced
from tests.waiting import PATIENCE_S, happens

ONE = replace(CODE, problem_id="one", tests=json.dumps([{"call": {"args": [1]}, "output": 2}]))
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


def slow(number, seconds=0.05):
    """A right answer to ONE that is no other's text."""
    return fenced(f"import time\ntime.sleep({seconds})\ndef f(x): return x + 1  # {number}")


@pytest.fixture(scope="module")
def pair(serve):
    """The second one is small: it turns much away."""
    return [serve(), serve("--queue", "8", "--max-request-mb", "1")]


def remote(*servers, **options):
    return RemoteVerifierPool([server.url for server in servers], TOKEN, **options)


def metrics(server):
    text = httpx.get(server.url + "/metrics", headers=AUTHORIZED).raise_for_status().text
    return {
        (sample.name.removeprefix("ratchet_judge_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def batch(*pairs):
    return encode_batch((number, Submission(*pair)) for number, pair in enumerate(pairs))


def post(server, *pairs):
    body = batch(*pairs)
    return httpx.post(server.url + "/v1/verify", content=body, headers=AUTHORIZED)


@pytest.mark.parametrize("fraction", [False, True])
def test_verdicts_are_those_of_the_local_pool(pair, fraction, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    how = JudgeSettings(fraction, total_s=0.6 if fraction else None)
    with VerifierPool(1, how) as near, open_pool([server.url for server in pair], settings=how) as far:
        assert isinstance(far, RemoteVerifierPool)
        names = ("code", "wrong at first", "a NUL", "a text of no character") if fraction else CASES
        cases = [CASES[name][:2] for name in names]
        expected = near.verify(cases)
        assert far.verify(cases) == expected
        if fraction:  # of four tests one fits into the time
            [late] = far.verify([(CODE, fenced("import time\ndef f(x): return time.sleep(9 * x) or x + 1"))])
            assert (late.decided_by, late.fraction) == ("time_limit", 0.25)
        assert far.run_programs([(CODE, "f = lambda x: -~x")])[0].passed
        assert not any(verdict.outcome is Outcome.INFRA_ERROR for verdict in expected)
        far.submit("cut", MATH, "\\boxed{0.5}", finished=False)
        assert [(ticket, verdict.decided_by) for ticket, verdict in far.results()] == [("cut", "truncated")]


def test_a_server_killed_under_load_loses_no_ticket_and_is_used_again_when_it_is_back(pair, serve):
    killed = serve()
    with remote(killed, pair[0]) as pool:
        for number in range(60):
            problem, response = (ONE, slow(number)) if number % 2 else (ALGEBRA, f"\\boxed{{{number}-x}}")
            pool.submit(number, problem, response)
        seen = []
        for ticket, verdict in pool.results():
            seen.append(ticket)
            assert verdict.passed == bool(ticket % 2), (ticket, verdict)
            if len(seen) == 10:
                os.killpg(killed.process.pid, signal.SIGKILL)
        assert sorted(seen) == list(range(60))
        assert list(pool.results()) == []

        back = serve(port=killed.port)
        fresh = count()
        while not any(name[0] == "verdicts_total" and value for name, value in metrics(back).items()):
            verdicts = pool.verify([(ONE, slow(f"back {next(fresh)}")) for _ in range(20)])
            assert all(verdict.passed for verdict in verdicts)

        # It shuts down: what runs is finished, what waits is judged by the other, and the exit is clean.
        tickets = range(40)
        for number in tickets:
            pool.submit(number, ONE, slow(f"last {number}"))
        back.process.send_signal(signal.SIGTERM)
        assert {ticket: verdict.passed for ticket, verdict in pool.results()} == dict.fromkeys(tickets, True)
        assert back.process.wait() == 0
        assert back.log.read_text().endswith("Stopped.\n")


def test_a_silent_server_is_given_up(pair):
    with remote(*pair, silence_s=3.0) as pool:
        os.kill(pair[1].process.pid, signal.SIGSTOP)
        try:
            verdicts = pool.verify([(ONE, slow(f"silent {number}", 0.01)) for number in range(24)])
        finally:
            os.kill(pair[1].process.pid, signal.SIGCONT)
    assert all(verdict.passed for verdict in verdicts)


def test_a_full_queue_turns_requests_away_and_the_client_waits(pair):
    small = pair[1]
    before = metrics(small)["refused_requests_total",]
    with remote(small) as one, remote(small) as other, ThreadPoolExecutor() as both:
        runs = [
            both.submit(pool.verify, [(ONE, slow(f"{name} {number}", 0.02)) for number in range(16)])
            for name, pool in (("one", one), ("other", other))
        ]
        assert all(verdict.passed for run in runs for verdict in run.result())
    assert metrics(small)["refused_requests_total",] > before
    too_many = post(small, *[(MATH, "")] * 9)
    assert too_many.status_code == 413 and "whole queue of 8" in too_many.json()["error"]
    with httpx.stream(
        "POST", small.url + "/v1/verify", headers=AUTHORIZED,
        content=batch(*[(ONE, slow(f"held {number}", 3)) for number in range(8)]),
    ) as held:  # fmt: skip
        lines = held.iter_lines()
        assert next(lines) == ""
        refused = post(small, *[(MATH, "\\boxed{0.5}")] * 4)  # still too many when three of the eight are done
        assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
    # Its client is gone, and leaves no ticket in the queue.
    assert happens(lambda: post(small, *[(MATH, "\\boxed{0.5}")] * 8).status_code == 200)


def test_what_a_client_left_behind_is_dropped(pair):
    server = pair[0]
    with remote(server) as pool:
        for number in range(30):
            pool.submit(number, ONE, slow(f"left {number}", 1))
        assert happens(lambda: metrics(server)["queue_depth",] >= 3)
    reasons = {verdict.decided_by for _, verdict in pool.results()}
    assert "closed" in reasons and reasons <= {"closed", "all_tests"}  # on a busy machine a few are judged before
    assert happens(lambda: not metrics(server)["queue_depth",] and not metrics(server)["in_flight",])
    assert metrics(server)["dropped_tickets_total",] >= 10


def test_metrics_and_health(pair):
    with remote(pair[0]) as pool:
        before = metrics(pair[0])
        pool.verify([(MATH, "\\boxed{0.5}"), (MATH, "\\boxed{7}")])
        after = metrics(pair[0])
    assert after["verdicts_total", "math", "passed"] == before["verdicts_total", "math", "passed"] + 1
    assert after["verdicts_total", "code", "infra_error"] == 0
    assert after["verdict_seconds_count", "math"] == before["verdict_seconds_count", "math"] + 2
    assert (after["workers",], after["queue_depth",]) == (1, 0)
    assert httpx.get(pair[0].url + "/health").json() == {"status": "ok"}
    health = httpx.get(pair[0].url + "/health", headers=AUTHORIZED).json()
    assert health["workers"] == 1 and "seccomp" in health["isolation"]


def test_the_token_is_wanted_everywhere(pair, monkeypatch):
    server = pair[0]
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer é"}):
        sent = {name: value.encode() for name, value in headers.items()}
        assert httpx.post(server.url + "/v1/verify", content=b"{}", headers=sent).status_code == 401
        assert httpx.get(server.url + "/metrics", headers=sent).status_code == 401
        assert not headers or httpx.get(server.url + "/health", headers=sent).status_code == 401
    with pytest.raises(RatchetError, match=f"{server.url} refuses the token: {TOKEN_VARIABLE}"):
        RemoteVerifierPool([server.url], "wrong")
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(RatchetError, match=f"{TOKEN_VARIABLE} is not set"):
        open_pool([server.url])
    with pytest.raises(RatchetError, match="'judge-1:8900' is not a URL"):
        RemoteVerifierPool(["judge-1:8900"], TOKEN)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "the body is not JSON: "),
        (b"[]", "the body is not as in docs/howto/reward_servers.md: "),
        (b"{}", "the body has no 'problems'"),
        (b'{"problems": [{"answer": "1"}], "requests": []}', "problem 0 has no 'domain'"),
        (b'{"problems": [{"problem_id": 1, "domain": "math"}]}', "problem 0 is not as in docs/how"),
        (b'{"problems": [], "requests": [{"ticket": 1, "response": "", "problem": 0}]}', "request 0 is not as in docs"),
        (b'{"problems": [], "requests": [{"ticket": 1, "problem": 0}]}', "request 0 has no 'response'"),
        (b"[" * 100_000, "the body is not as in docs/howto/reward_servers.md: maximum recursion"),
    ],
)
def test_a_malformed_request_is_told_what_is_wrong(pair, body, reason):
    reply = httpx.post(pair[0].url + "/v1/verify", content=body, headers=AUTHORIZED)
    assert reply.status_code == 400 and reply.json()["error"].startswith(reason)


def test_a_problem_needs_no_id(pair):
    def ask(answer):
        request = {"ticket": 1, "problem": 0, "response": "\\boxed{5}"}
        batch = {"problems": [{"domain": "math", "answer": answer}], "requests": [request]}
        return httpx.post(pair[0].url + "/v1/verify", json=batch, headers=AUTHORIZED)

    replies = [ask("5"), ask("6")]
    assert [json.loads(reply.text)["outcome"] for reply in replies] == ["passed", "failed"]


def test_a_request_that_is_too_large_is_refused_and_the_others_are_judged(pair):
    small = pair[1]
    large = "x" * (2 << 20)
    assert httpx.post(small.url + "/v1/verify", content=large, headers=AUTHORIZED).status_code == 413
    parts = (part.encode() for part in [large[: 1 << 19]] * 4)  # no length is announced
    assert httpx.post(small.url + "/v1/verify", content=parts, headers=AUTHORIZED).status_code == 413
    with remote(small) as pool:
        sent = []
        pool._client.event_hooks = {"request": [lambda request: sent.append(len(request.content))]}
        verdicts = pool.verify([(MATH, "\\boxed{.5}"), (MATH, large), (MATH, "\\boxed{7}")])
    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASSED, Outcome.INFRA_ERROR, Outcome.FAILED]
    assert "HTTP 413: the request is larger than 1048576 bytes" in verdicts[1].detail
    assert sum(size > len(large) for size in sent) <= 2  # with another, and alone


def test_uploads_that_stall_do_not_keep_others_out(monkeypatch):
    monkeypatch.setattr(server_module, "UPLOAD_S", 2.0)
    monkeypatch.setattr(server_module, "UPLOADS", 4)
    begun = []

    async def stalled(pause_s):
        begun.append(pause_s)
        yield b'{"problems": ['
        while True:
            await asyncio.sleep(pause_s)
            yield b" "

    async def run(pool):
        application = RewardServer(pool, TOKEN, "", 64, 1 << 20).application
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://judge", headers=AUTHORIZED
        )
        body = batch((MATH, "\\boxed{0.5}"))
        uploads = [
            asyncio.create_task(client.post("/v1/verify", content=stalled(pause))) for pause in (9999, 9999, 0.1, 0.1)
        ]
        while len(begun) < 4:
            await asyncio.sleep(0)
        assert (await client.post("/v1/verify", content=body)).status_code == 429  # all places are taken
        assert [reply.status_code for reply in await asyncio.gather(*uploads)] == [408] * 4
        assert (await client.post("/v1/verify", content=body)).status_code == 200

    with VerifierPool(1) as pool:
        asyncio.run(run(pool))


def test_when_all_servers_are_gone_the_tickets_come_back_with_the_reason(serve):
    server = serve()
    with remote(server) as pool:
        assert pool.verify([(MATH, "\\boxed{0.5}")])[0].passed
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
        pool._patience_s = 1.0  # not before: an answer may take longer
        verdicts = pool.verify([(ONE, slow(number)) for number in range(5)])
        assert {(verdict.outcome, verdict.decided_by) for verdict in verdicts} == {
            (Outcome.INFRA_ERROR, "reward_servers")
        }
        assert f"no reward server has answered for 1 s ({server.url}: cannot be reached" in verdicts[0].detail
        pool.submit("open", ONE, slow("open"))
    assert [(ticket, verdict.decided_by) for ticket, verdict in pool.results()] == [("open", "closed")]
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit("late", MATH, "")
    with pytest.raises(RatchetError, match=r"No reward server answers .*ratchet-judge serve"):
        remote(server)


def test_a_port_in_use_and_an_open_token_file_get_one_message_and_code_2(tmp_path):
    def run(*options, environment=ENVIRONMENT):
        return subprocess.run(
            [*SERVE, "--token-file", str(tmp_path / "judge.token"), *options],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run("--port", port, environment={**ENVIRONMENT, TOKEN_VARIABLE: ""})
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"Cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stderr
    token = tmp_path / "judge.token"  # made before the port was tried, and kept for the next time
    assert token.stat().st_mode & 0o777 == 0o600 and len(token.read_text()) > 40
    token.chmod(0o644)
    done = run("--port", "0", environment={**ENVIRONMENT, TOKEN_VARIABLE: ""})
    assert done.returncode == 2 and "chmod 600" in done.stderr
