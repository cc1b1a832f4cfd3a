"""`ratchet show`: the artifacts of a home."""

from typing import Annotated

from ratchet.cli.options import AsJson, Home, artifact
from ratchet.infra.settings import load_settings


def show(
    what: Annotated[str, artifact("An artifact or the beginning of its name or key, or a kind (default: all).")] = "",
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """List artifacts, or show one: parameters, counts, dropped rows, and everything it was made from.

    Example: `ratchet show evaluation/math-60-1a2b3c4d5e6f`
    """
    from ratchet.cli.inspection import show_artifacts

    show_artifacts(load_settings(home), what, as_json)
