"""The one exception a person is meant to read."""


class RatchetError(Exception):
    """Something the user can fix: says what is wrong, where, and what to do.

    The command line prints the message and exits with code 2; the traceback is shown only with `--debug`.
    Anything that is not a `RatchetError` is a defect of ours and keeps its traceback.
    """


class NotGiven(RatchetError):
    """What a recipe leaves to those who run it, and they have not given: a plan cannot do without, an estimate can."""
