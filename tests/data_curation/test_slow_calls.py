"""What does not answer: that is said after a while, and by which way it was asked."""

import socket
import threading

import pytest

from ratchet.data_curation.base import slow_calls
from ratchet.data_curation.base.openai_engine import EndpointUnreachable, check_endpoint
from ratchet.data_curation.base.slow_calls import proxy_note, say_if_slow
from ratchet.verifiers.processes import free_port


def test_what_takes_long_is_said_once(monkeypatch, capsys):
    monkeypatch.setattr(slow_calls, "QUIET_S", 0.05)
    said = threading.Event()
    with say_if_slow("Waiting for the Hub …"):
        said.wait(0.5)
    assert capsys.readouterr().err == "Waiting for the Hub …\n"
    monkeypatch.setattr(slow_calls, "QUIET_S", 60.0)
    with say_if_slow("Waiting for nothing …"):
        pass
    assert capsys.readouterr().err == ""


def test_an_endpoint_that_is_silent_is_named_while_it_is_waited_for(monkeypatch, capsys):
    monkeypatch.setattr(slow_calls, "QUIET_S", 0.05)
    monkeypatch.setattr("ratchet.data_curation.base.openai_engine.CHECK_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with pytest.raises(EndpointUnreachable, match="cannot be reached"):
            check_endpoint(address, None)
    assert capsys.readouterr().err == f"Waiting for {address} …\n"


def test_the_proxy_that_refuses_is_named_without_its_password(monkeypatch):
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    port = free_port()
    monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{port}")
    way = f" (by the environment's proxy 127.0.0.1:{port})"
    assert proxy_note("https://example.org/v1") == way and proxy_note("http://example.org/v1") == ""
    with pytest.raises(EndpointUnreachable) as refused:
        check_endpoint("https://example.org/v1", None)
    assert f"https://example.org/v1{way} cannot be reached" in str(refused.value) and "secret" not in str(refused.value)
    monkeypatch.setenv("no_proxy", "example.org")
    assert proxy_note("https://example.org/v1") == ""
