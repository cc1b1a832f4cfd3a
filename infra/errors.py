"""The one exception a person is meant to read."""

import difflib
import errno
from collections.abc import Iterable


class RatchetError(Exception):
    """Something the user can fix: says what is wrong, where, and what to do.

    The command line prints the message and exits with code 2; the traceback is shown only with `--debug`.
    Of what the system says about a file it prints one line too; anything else is a defect of ours and keeps its
    traceback.
    """


class NotGiven(RatchetError):
    """What a recipe leaves to those who run it, and they have not given: a plan cannot do without, an estimate can."""


class Waiting(RatchetError):
    """The run is over for now, until a person decides."""


def in_words(error: Exception) -> str:
    """The line a person reads of an error that is theirs to fix; nothing for a defect of ours."""
    if isinstance(error, RatchetError):
        return str(error)
    if isinstance(error, OSError) and (error.filename is not None or error.errno in (errno.ENOSPC, errno.EDQUOT)):
        return f"{error.filename}: {error.strerror}." if error.filename is not None else f"{error.strerror}."
    return ""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The question whether the most similar name was meant, to be put behind a sentence; nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""
