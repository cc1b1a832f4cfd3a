"""Tell the user of an interrupted command where it stopped, and how to continue."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.cli.terminal import errors, print_command

if TYPE_CHECKING:  # imports pyarrow, which --help does without
    from ratchet.tasks.reporter import ProgressReporter

_watched: "list[ProgressReporter]" = []
"""The reporter of the flow that this command runs, if it runs one."""


def watch(reporter: "ProgressReporter") -> None:
    """Remember this reporter, so that an interruption can say where it stopped."""
    _watched[:] = [reporter]


def say_where_it_stopped() -> None:
    """Print where the command stopped, and the command that continues from there or starts over."""
    if _watched:
        at = f" in {now}" if (now := _watched[0].now) else ""
        words = f"Interrupted{at}. Finished work is kept; the same command continues from there:"
    else:
        words = "Interrupted. No partial output is left; the same command starts over:"
    errors.print(f"\n{words}", soft_wrap=True, markup=False)
    name = Path(sys.argv[0]).name
    print_command(shlex.join([name if shutil.which(name) else sys.argv[0], *sys.argv[1:]]), errors)
