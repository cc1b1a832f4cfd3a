"""The command line's tests use the finished run that the flows' tests use."""

from tests.flows.conftest import finished_home, ratchet, ready_home, served, typed  # noqa: F401
