"""Locate the environments of the verifiers library."""

import importlib.metadata

from ratchet.verifiers.errors import RatchetError

LIBRARY = "verifiers"


def loader_of(path: str) -> str:
    """The import path of an environment's function; on a hub, an environment's name is OWNER/my-environment."""
    module, _, function = path.partition(":")
    return f"{module.split('/')[-1].replace('-', '_')}:{function or 'load_environment'}"


def check_library() -> None:
    """Raises RatchetError if the library is missing, with the command that installs it."""
    try:
        version = importlib.metadata.version(LIBRARY)  # an import would find our folder of that name in a checkout
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if not version.startswith("0.3."):
        other = f"; {version} is installed" if version else ""
        raise RatchetError(
            f"Environments need the verifiers library, 0.3{other}: pip install './verifiers[environments]' in a "
            "checkout of Ratchet."
        )
