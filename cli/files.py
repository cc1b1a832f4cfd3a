"""Output files that appear when they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ratchet.infra.errors import RatchetError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to, which gets its name at the end; after an error what was there before is still there.

    Raises RatchetError when there is no such directory, or it cannot be written to.
    """
    from ratchet.infra.artifacts import disk_errors  # which imports pyarrow: too slow for --help

    if not path.parent.is_dir():
        raise RatchetError(f"There is no directory {path.parent} to write {path.name} in. Make it first.")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with disk_errors(path.parent):
        try:
            yield draft
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
