"""Files of a data set on the Hugging Face hub, through the hub's own client and its cache."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from infra.errors import RatchetError

HUB = "hf://datasets/"
_ADDRESS = re.compile(r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?/(?P<pattern>.+)")


def dataset_files(address: str) -> list[Path]:
    """The files at `hf://datasets/OWNER/NAME[@REVISION]/PATTERN`, in order; a pattern may hold `*` and `[45]`.

    Raises RatchetError when the address is no such one, when nothing matches, or when the hub cannot be reached.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise RatchetError(f"{address!r} is not an address on the hub: write hf://datasets/OWNER/NAME/FILE.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    repo, revision, pattern = parts["repo"], (parts["revision"] or "main").replace("%2F", "/"), parts["pattern"]
    try:
        root = Path(snapshot_download(repo, repo_type="dataset", revision=revision, allow_patterns=[pattern]))
    except (OSError, ValueError, HfHubHTTPError) as error:
        raise RatchetError(
            f"{address} cannot be fetched from the hub ({type(error).__name__}: {' '.join(str(error).split())[:300]}). "
            "Give a file of your own instead: path of the benchmark in the recipe."
        ) from error
    files = sorted(f for f in root.rglob("*") if f.is_file() and fnmatch.fnmatch(str(f.relative_to(root)), pattern))
    if not files:
        raise RatchetError(f"{address}: the data set {repo} has no file that matches {pattern}.")
    return files
