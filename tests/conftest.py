"""What holds for all tests: their order, failures named at once, and the same random examples in every run."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.flows.commands"]  # a fixture of the session that two conftests import is made twice

LONGEST = (
    "tests/flows/test_pipeline.py", "tests/verifiers/test_sandbox_attacks.py", "tests/training/test_invariance.py",
    "tests/verifiers/test_compiled_attacks.py", "tests/verifiers/test_checkers.py", "tests/evaluation/test_main.py",
    "tests/infra/test_tracking.py", "tests/training/test_stage.py", "tests/training/test_stub_accelerator.py",
    "tests/training/test_main.py", "tests/cli/test_own_domain.py", "tests/flows/test_dry_runs.py",
    "tests/cli/test_commands.py", "tests/cli/test_mistakes.py", "tests/cli/test_live.py",
)  # fmt: skip
"""By the CPU time they take, the longest first; the last use the home that the first one's pipeline runs in."""

# Hundreds of processes start here: where the environment forbids it, each would compile the product again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nothing that asks how fast this machine is. `pytest --hypothesis-profile=default` looks for new examples.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A cache for all of pytest's processes and their children: no test reads or writes the user's."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    os.environ["XDG_CACHE_HOME"] = str(shared / "cache")


@pytest.fixture(scope="module", autouse=True)
def _settings() -> Iterator[None]:
    """What a module's tests leave in the environment (recipes' own domains, the address of an MLflow) ends with it."""

    def ours() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith(("RATCHET_", "MLFLOW_"))}

    before = ours()
    yield
    for name in ours():
        del os.environ[name]
    os.environ.update(before)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Write tests/flows/golden again.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that pytest's processes end together; others start from the home of the first."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and (terminal := config.pluginmanager.get_plugin("terminalreporter")):
        config.pluginmanager.register(FailuresAtOnce(terminal))


class FailuresAtOnce:
    """Names a test that fails when it fails, with the last line of its error; pytest shows the rest at the end."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.terminal.write("\n")  # behind the dots
            said = str(crash.message).partition("\n")[0] if crash else f"in {report.when}"
            self.terminal.write_line(f"FAILED {report.nodeid}: {said[:200]}", red=True)
