"""Messages about waits of more than five seconds, and about the proxy used for an address that does not answer."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

QUIET_S = 5.0


@contextmanager
def say_if_slow(line: str) -> Iterator[None]:
    """Print `line` to standard error if the block takes longer than five seconds."""
    timer = threading.Timer(QUIET_S, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def proxy_note(address: str) -> str:
    """The environment's proxy for this address, in parentheses and without its password; "" if there is none."""
    parts, proxies = urlsplit(address), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return ""
    return f" (by the environment's proxy {proxy.rpartition('@')[2]})"
