"""Legal programs that other judges refuse: each prints twice the number it reads."""

LEGAL = {
    "plain": "print(2 * int(input()))",
    "exit in the middle": "print(2 * int(input()))\nexit()\nprint(0)",
    "quit": "print(2 * int(input()))\nquit(0)",
    "main guard": "def main():\n    print(2 * int(input()))\nif __name__ == '__main__':\n    main()",
    "global at module level": "global total\ntotal = 2 * int(input())\nprint(total)",
    "lines of sys.stdin": "import sys\nfor line in sys.stdin:\n    print(2 * int(line))",
    "sys.stdin.read": "import sys\nprint(2 * int(sys.stdin.read()))",
    "buffer.readline twice": (
        "import sys\nfirst = sys.stdin.buffer.readline()\n"
        "assert sys.stdin.buffer.readline() == b''\nprint(2 * int(first))"
    ),
    "from sys import stdout": "from sys import stdin, stdout\nstdout.write(str(2 * int(stdin.readline())) + '\\n')",
    "open(0)": "print(2 * int(open(0).read()))",
    "os.read and os.write": "import os\nos.write(1, str(2 * int(os.read(0, 100))).encode())",
    "fstat": "import io, os\ninput = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nprint(2 * int(input()))",
    "buffer.write": "import sys\nsys.stdout.buffer.write(b'%d' % (2 * int(input())))",
    "os._exit after flush": "import os, sys\nprint(2 * int(input()))\nsys.stdout.flush()\nos._exit(0)",
    "exit()": "import sys\nprint(2 * int(input()))\nsys.exit()",
    "stdout removed": "import sys\nprint(2 * int(input()))\nsys.stdout = None",
    "stdout replaced": (
        "import io, sys\nclass Out(io.StringIO):\n    def flush(self):\n        import os\n"
        "        os.write(1, self.getvalue().encode())\n        self.truncate(0)\n        self.seek(0)\n"
        "sys.stdout = Out()\nprint(2 * int(input()))"
    ),
    "atexit": "import atexit, os\ntext = str(2 * int(input()))\natexit.register(lambda: os.write(1, text.encode()))",
    "recursion in a thread": (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 27)\n"
        "def g(n):\n    return 0 if n == 0 else 2 + g(n - 1)\ndef main():\n    n = int(input())\n"
        "    print(2 * n if g(min(n, 50000)) else 0)\n"
        "thread = threading.Thread(target=main)\nthread.start()\nthread.join()"
    ),
    "thread left to the interpreter": (
        "import threading\nthreading.Thread(target=lambda: print(2 * int(input()))).start()"
    ),
    "asyncio": "import asyncio\nasync def main():\n    print(2 * int(input()))\nasyncio.run(main())",
    "dataclasses and pickle": (
        "import pickle\nfrom dataclasses import dataclass\n@dataclass\nclass Number:\n    value: int\n"
        "print(pickle.loads(pickle.dumps(Number(2 * int(input())))).value)"
    ),
    "typing and annotations": (
        "from __future__ import annotations\nfrom typing import List\n"
        "def g(x: List[int]) -> int:\n    return 2 * x[0]\n"
        "print(g([int(input())]))"
    ),
    "trailing white space": "print(2 * int(input()), end=' \\n\\n')",
    "standard error": "import sys\nprint('debug', file=sys.stderr)\nprint(2 * int(input()))",
    "state at module level": "seen = globals().setdefault('seen', [])\nseen.append(int(input()))\nprint(2 * seen[0])",
    "state in a library": (
        "import decimal, math\nmath.seen = getattr(math, 'seen', int(input()))\nprint(2 * math.seen)"
    ),
    "threads with large stacks": (
        "import threading\nthreading.stack_size(1 << 26)\nresults = []\nnumber = int(input())\n"
        "threads = [threading.Thread(target=lambda: results.append(number)) for _ in range(2)]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\nprint(sum(results))"
    ),
    "dozens of threads": (
        "import threading\nwaiting = threading.Event()\n"
        "threads = [threading.Thread(target=waiting.wait, args=(0.05,)) for _ in range(60)]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\nprint(2 * int(input()))"
    ),
    "a thread pool": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    print(sum(pool.map(int, [input()] * 1)) * 2)"
    ),
    "anonymous memory": (
        "import mmap\nmemory = mmap.mmap(-1, 1 << 20)\nmemory.write(input().encode())\nmemory.seek(0)\n"
        "print(2 * int(memory.readline().rstrip(b'\\0')))"
    ),
    "standard input mapped": (
        "import mmap\nprint(2 * int(mmap.mmap(0, 0, access=mmap.ACCESS_READ).read().decode()))"
    ),
    "numpy": "import numpy as np\nprint(int((np.fromstring(input(), dtype=np.int64, sep=' ') * 2)[0]))",
    "numpy algebra": (
        "import sys\nimport numpy as np\nx = np.loadtxt(sys.stdin)\n"
        "print(int(np.linalg.solve(np.eye(50) / 2, np.full(50, x))[0]))"
    ),
    "modules that are not preloaded": (
        "import sqlite3, csv, zlib, hashlib, uuid, calendar, textwrap, email, logging, tempfile\n"
        "print(2 * int(input()))"
    ),
    "select and polling": (
        "import selectors, sys\nselectors.DefaultSelector().close()\nprint(2 * int(sys.stdin.readline()))"
    ),
    "a timer": (
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 100)\nsignal.alarm(100)\nprint(2 * int(input()))"
    ),
    "time and resources": (
        "import os, resource, time\ntime.sleep(0.001)\ntime.perf_counter()\nresource.getrusage(resource.RUSAGE_SELF)\n"
        "resource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK))\n"
        "os.getpid(), os.getcwd(), os.cpu_count(), os.sched_getaffinity(0), os.urandom(8), os.uname()\n"
        "print(2 * int(input()))"
    ),
    "descriptors": (
        "import os\nsaved = os.dup(1)\nreading, writing = os.pipe()\nos.dup2(writing, 1)\nos.dup2(saved, 1)\n"
        "os.isatty(0), os.fstat(1), os.set_inheritable(saved, False)\nprint(2 * int(input()))"
    ),
    "everything read through io": (
        "import io, os, sys\nsys.stdin = io.BytesIO(os.read(0, os.fstat(0).st_size))\n"
        "print(2 * int(sys.stdin.readline()))"
    ),
    "the header of Codeforces": (
        "import io, os, sys\nclass Fast(io.IOBase):\n    def __init__(self, file):\n        self.fd = file.fileno()\n"
        "        self.writable = 'x' in file.mode or 'r' not in file.mode\n        self.buffer = io.BytesIO()\n"
        "    def readline(self): return os.read(self.fd, os.fstat(self.fd).st_size)\n"
        "    def write(self, text): return self.buffer.write(text.encode())\n"
        "    def flush(self):\n        if self.writable:\n            os.write(self.fd, self.buffer.getvalue())\n"
        "            self.buffer = io.BytesIO()\n"
        "sys.stdin, sys.stdout = Fast(sys.stdin), Fast(sys.stdout)\nprint(2 * int(sys.stdin.readline()))"
    ),
    "attributes of the streams": (
        "import sys\nfor stream, mode, name in (sys.stdin, 'r', '<stdin>'), (sys.stdout, 'w', '<stdout>'):\n"
        "    assert (stream.mode, stream.name, stream.encoding) == (mode, name, 'utf-8')\n"
        "    assert stream.buffer.raw.name == stream.buffer.name == name and stream.fileno() == 'rw'.index(mode)\n"
        "    assert not stream.isatty() and not stream.line_buffering\n    stream.reconfigure(encoding='utf-8')\n"
        "print(2 * int(sys.stdin.readline()))"
    ),
    "faulthandler": "import faulthandler\nfaulthandler.enable()\nprint(2 * int(input()))",
}  # fmt: skip

SILENT = "import os, sys\nsys.stderr = open(os.devnull, 'w')\nprint(2 * int(input()))"
"""Legal too, but opens a device for writing: refused where nothing but seccomp guards the files."""
