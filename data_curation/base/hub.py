"""Is the Hugging Face Hub reachable, and what is known without it?"""

import os
from functools import cache

HUB_S = 5.0
"""Timeout of the request."""


def hub_address() -> str:
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT") or constants.ENDPOINT


def hub_answers() -> bool:
    """One request without retries: the Hub's client retries each file for half a minute."""
    return _answers(hub_address())


@cache
def _answers(endpoint: str) -> bool:
    from huggingface_hub.utils import get_session

    try:
        get_session().head(endpoint, timeout=HUB_S)
    except Exception:  # of any transport, or offline mode
        return False
    return True
