"""Where solutions run: a fork server that starts a confined process for each, and never knows what is expected.

Nothing is imported here: the fork server loads this package too, and what it does not map makes each fork cheaper.
"""


def sandbox_isolation() -> str:
    """The layers that confine solutions on this machine, outermost first, joined by `+`.

    Found out by starting a sandbox. Raises RatchetError where code written by a model cannot be confined.
    """
    from verifiers.sandbox.server import isolation_here

    return isolation_here()
