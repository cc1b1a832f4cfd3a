"""Become another program, after asking the kernel to end it when its parent ends.

A file of its own, run as a script: doing this between fork and exec inside a threaded parent is unsafe.
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
    if os.getppid() != parent:  # it died before we asked
        sys.exit(143)
    os.execvp(argv[0], argv)
