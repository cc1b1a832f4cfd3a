"""Where solutions run: a fork server that starts a confined process for each, and never knows what is expected."""

from verifiers.sandbox.server import Execution, Sandbox, SandboxFault, TestRun, sandbox_isolation

__all__ = ["Execution", "Sandbox", "SandboxFault", "TestRun", "sandbox_isolation"]
