"""Exceptions whose messages are for users."""

import difflib
import errno
import sysconfig
import traceback
from collections.abc import Iterable


class RatchetError(Exception):
    """A mistake that the user can fix: the message says what is wrong, where, and what to do.

    The command line prints the message and exits with code 2. Errors of the file system also become one line; any other
    exception is a defect and keeps its traceback.
    """


class NotGiven(RatchetError):
    """A value that the recipe leaves to the user is missing: there is no plan, but there can be an estimate."""


class Waiting(RatchetError):
    """The run has ended until a person approves."""


def not_installed(what: str, extra: str) -> RatchetError:
    """The error for an optional library that is missing."""
    return RatchetError(f"{what} needs more packages: pip install './verifiers[{extra}]' in a checkout of Ratchet.")


def in_words(error: Exception) -> str:
    """The one-line message of an error that the user can fix; empty for a defect."""
    if isinstance(error, RatchetError):
        return str(error)
    if isinstance(error, OSError) and (error.filename is not None or error.errno in (errno.ENOSPC, errno.EDQUOT)):
        return f"{error.filename}: {error.strerror}." if error.filename is not None else f"{error.strerror}."
    return ""


def with_place(error: BaseException) -> str:
    """An error of the user's own code in words, with the last file and line outside of Python's own library. Also for
    an error whose own text raises."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _in_standard_library(frame.filename)]
    place = (own or frames)[-1]
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return f"{text} ({place.filename}, line {place.lineno})"


def _in_standard_library(file: str) -> bool:
    paths = sysconfig.get_paths()
    return file.startswith((paths["stdlib"], "<")) and not file.startswith((paths["purelib"], paths["platlib"]))


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """A hint `Did you mean …?`, to append to a sentence; "" if no name is similar."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""
