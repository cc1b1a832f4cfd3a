"""Where solutions run: a fork server that starts a confined process for each, and never knows what is expected.

Nothing is imported here: the fork server loads this package too, and what it does not map makes each fork cheaper.
"""


def sandbox_isolation(minimum: str = "C") -> str:
    """The rung of the isolation ladder that this machine offers, and its layers: `A: namespaces+private-root+...`.

    Found out by attacking a sandbox, once in a process. Raises RatchetError when the rung is below `minimum`.
    """
    from verifiers.sandbox.server import demand

    return str(demand(minimum))
