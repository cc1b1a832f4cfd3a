"""The sandbox for solutions: a fork server that starts a confined process for each, and never has an expected value.

It imports hardly anything: the fork server loads this package too, and each page that it does not map makes a fork
cheaper.
"""

import signal

STOP = b"stop"
"""Message from the judge: end the program."""
MESSAGE_BYTES = 16384
"""Longest message between judge and server. Messages contain limits and results, nothing of a job."""
MOST_FILES = 64
"""Most descriptors of one message."""
STOPPED = b"stopped"
"""Last line of a report: the process begins no further test, though there may be more."""
ASKED, READY = b"asked ", b"ready "
"""Marks before a check's record in its report: from the first on its end may be the program's doing; until the second,
which says that the program is known, and again from the check's own first use of it."""
UNCONFINED = signal.SIGUSR1
"""Signal that ends a process that could not be confined. A solution cannot die of it: it may not send signals."""
