"""Test whether the Hugging Face Hub is reachable, and answer what is known without it."""

import os
import threading
from functools import cache

from ratchet.data_curation.base.slow_calls import say_if_slow

HUB_S, LONGEST_S = 5.0, 15.0
"""Seconds for the request's connection, and for the whole request: a silent resolver of names has limits of its own."""


def hub_address() -> str:
    """The address of the Hub: HF_ENDPOINT, or else the library's default."""
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT") or constants.ENDPOINT


def hub_answers() -> bool:
    """True if the Hub answers one request, without retries: the Hub's client retries each file for half a minute."""
    return _answers(hub_address())


@cache
def _answers(endpoint: str) -> bool:
    from huggingface_hub.utils import get_session

    answered: list[bool] = []

    def ask() -> None:
        try:
            get_session().head(endpoint, timeout=HUB_S)
        except Exception:  # of any transport, or offline mode
            return
        answered.append(True)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    with say_if_slow(f"Waiting for the Hub, {endpoint} …"):
        asking.join(LONGEST_S)
    return bool(answered)
