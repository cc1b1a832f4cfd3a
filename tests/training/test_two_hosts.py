"""Two hosts with a cable between them: network namespaces, with a rank and a reward server in each."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ratchet.verifiers.processes import process_group
from tests.training.processes import ENVIRONMENT, RECIPE, STEPS, metrics, specification, weights
from tests.waiting import happens

ADDRESSES = ("10.93.71.1", "10.93.71.2")
TIMEOUT_MINUTES = 0.4


class Host:
    """One of the two: commands that run in it have its network, its name and its file of addresses."""

    def __init__(self, name: str) -> None:
        self.name = name

    def command(self, *argv: str) -> list[str]:
        named = ["unshare", "--uts", "sh", "-c", f'hostname {self.name} && exec "$@"', "sh", *argv]
        return ["ip", "netns", "exec", self.name, *named]

    def cable(self, state: str) -> None:
        subprocess.run(["ip", "-n", self.name, "link", "set", "cable", state], check=True)


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the program ip (apt-get install iproute2)")
    mark = secrets.token_hex(2)
    names = [f"ratchet-{mark}-{i}" for i in (1, 2)]
    folders = [Path("/etc/netns") / name for name in names]
    try:
        for name, folder in zip(names, folders, strict=True):
            subprocess.run(["ip", "netns", "add", name], check=True)
            folder.mkdir(parents=True)
            both = "".join(f"{address} {other}\n" for address, other in zip(ADDRESSES, names, strict=True))
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{both}")
        ends = ["type", "veth", "peer", "name", "cable", "netns", names[1]]
        subprocess.run(["ip", "link", "add", "cable", "netns", names[0], *ends], check=True)
        for name, address in zip(names, ADDRESSES, strict=True):
            for command in (["addr", "add", f"{address}/24", "dev", "cable"], ["link", "set", "cable", "up"]):
                subprocess.run(["ip", "-n", name, *command], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield [Host(name) for name in names]
    finally:
        for name, folder in zip(names, folders, strict=True):
            subprocess.run(["ip", "netns", "delete", name], check=False)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def on_both(hosts: list[Host], spec: Path, environment: dict[str, str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The launcher of a stage on each, as a scheduler starts it."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                process_group(
                    host.command(sys.executable, "-m", "ratchet.training.launch", str(spec), f"{hosts[0].name}:29571"),
                    spec.with_name(f"{host.name}.log"),
                    environment,
                )
            )
            for host in hosts
        ]


@pytest.mark.slow
def test_a_cable_that_is_pulled_is_told_and_a_second_run_ends_with_the_same_weights(
    hosts, straight, learnt_model, tmp_path
):
    environment = ENVIRONMENT | {"RATCHET_JUDGE_TOKEN": secrets.token_hex(8), "RATCHET_HOME": str(tmp_path)}
    recipe = RECIPE.model_dump(mode="json")
    recipe["training"]["hardware"] |= {"machines": 2, "processes": 1, "advanced": {"timeout_minutes": TIMEOUT_MINUTES}}
    recipe["training"]["reward_servers"] = [f"http://{address}:8971" for address in ADDRESSES]
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(specification(tmp_path, learnt_model, recipe=recipe)))
    with ExitStack() as servers:
        for host, address in zip(hosts, ADDRESSES, strict=True):
            serve = ["ratchet.verifiers.serving.command", "serve", "--host", address, "--port", "8971"]
            argv = host.command(sys.executable, "-m", *serve, "--workers", "1")
            servers.enter_context(process_group(argv, tmp_path / f"judge-{host.name}.log", environment))
        for host in hosts:
            log = tmp_path / f"judge-{host.name}.log"
            assert happens(lambda log=log: log.exists() and "Judging at" in log.read_text())

        with on_both(hosts, spec, environment) as launchers:
            assert happens(lambda: len(metrics(tmp_path)) >= 3), logs(tmp_path)
            hosts[0].cable("down")
            for launcher in launchers:
                assert launcher.wait() != 0
            print(logs(tmp_path))
        hosts[0].cable("up")
        status = json.loads((tmp_path / "work" / "status.json").read_text())
        assert status["state"] == "failed" and "timeout_minutes" in status["message"]
        assert 3 <= len(metrics(tmp_path)) < STEPS

        with on_both(hosts, spec, environment) as launchers:
            for launcher in launchers:
                assert launcher.wait() == 0, logs(tmp_path)
    assert weights(tmp_path) == weights(straight)


def logs(work: Path) -> str:
    return "\n".join(file.read_text() for file in sorted(work.glob("*.log")))
