"""The sandbox for solutions: a fork server that starts a confined process for each, and never has an expected value.

Imports hardly anything: the fork server loads this package too, and what it does not map makes each fork cheaper.
"""

import signal

STOP = b"stop"
"""From the judge: end the program."""
MESSAGE_BYTES = 16384
"""Longest message between judge and server. Messages contain limits and results, nothing of a job."""
MOST_FILES = 64
"""Most descriptors of one message."""
STOPPED = b"stopped"
"""The last line of a report: the process begins no further test, though there may be more."""
ASKED = b"asked "
"""Begins the line of a check in its report: it has used the program."""
UNCONFINED = signal.SIGUSR1
"""Ends a process that could not be confined. A solution cannot die of it: it may not send signals."""
