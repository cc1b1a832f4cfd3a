"""Become another program, after asking the kernel to end this process with its parent.

A script, because doing this between fork and exec is unsafe in a threaded parent.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent died before the request
        sys.exit(143)
    os.execvp(argv[0], argv)
