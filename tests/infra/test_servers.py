"""Several servers as one engine, with servers that answer at once, in threads of this process; the death of a real one
is in `test_vllm_engine.py`."""

import threading

import pytest

from ratchet.data_curation.base.protocol import Completion, Request, Sampling
from ratchet.infra.inference.servers import Servers
from ratchet.verifiers.errors import RatchetError


class Service:
    """Answers until it has answered `lasts` requests, and then fails."""

    positions = 64

    def __init__(self, lasts: int) -> None:
        self.lasts, self.answered, self.asked = lasts, 0, 0

    def answer(self, batch, sampling, left):
        self.asked += 1
        for request in batch:
            if self.answered >= self.lasts:
                raise RatchetError(f"lost after {self.lasts}")
            self.answered += 1
            yield Completion(request.key, "", "stop", 1)


def batches(count: int) -> list[list[Request]]:
    return [[Request((i, j), 0, (5,)) for j in range(3)] for i in range(count)]


def keys(engine: Servers, count: int) -> list:
    return sorted(completion.key for completion in engine.generate(batches(count), Sampling()))


def test_every_request_is_answered_once_and_every_server_is_asked():
    services = [Service(10**6) for _ in range(3)]
    engine = Servers(services, lambda version: {}, batch_size=9, rank=1)
    assert keys(engine, 20) == [(i, j) for i in range(20) for j in range(3)]
    assert all(service.asked for service in services)
    assert not keys(engine, 0)


def test_what_a_lost_server_has_not_answered_is_asked_of_others_until_new_weights(capsys):
    services, failed = [Service(10**6), Service(4), Service(10**6)], {}
    engine = Servers(services, lambda version: failed, batch_size=9, rank=0)
    assert keys(engine, 20) == [(i, j) for i in range(20) for j in range(3)]
    assert services[1].answered == 4 and capsys.readouterr().err == "continuing with 2 of 3 servers: lost after 4\n"
    before = services[1].asked
    assert len(keys(engine, 20)) == 60 and services[1].asked == before
    services[1].lasts = 10**6
    engine.receive("next")
    assert len(keys(engine, 20)) == 60 and services[1].asked > before
    failed[0] = "it did not take them"
    for _ in range(2):  # reported once
        engine.receive("last")
    assert capsys.readouterr().err == "continuing with 2 of 3 servers: it did not take them\n"


def test_when_all_are_lost_the_reason_is_told_and_no_thread_is_left():
    with pytest.raises(RatchetError, match=r"lost after [25]"):
        keys(Servers([Service(2), Service(5)], lambda version: {}, batch_size=6, rank=0), 20)
    answers = Servers([Service(10**6)], lambda version: {}, batch_size=6, rank=0).generate(batches(20), Sampling())
    next(answers)
    answers.close()
    for thread in threading.enumerate():
        if thread.name == "server":
            thread.join()
