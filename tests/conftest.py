"""What holds for all tests: their order and, for those with random examples, the same examples in every run."""

import os

import pytest
from hypothesis import HealthCheck, settings

LONGEST = ("tests/flows/test_pipeline.py", "tests/verifiers/test_sandbox_attacks.py")

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that pytest's processes end together; others start from the home of the first."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/flows/golden again")
