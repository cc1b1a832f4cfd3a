"""Programs that attack the judge, and legal programs that other judges refuse.

Each attack is written for the problem of `tests/verifiers/test_sandbox_attacks.py`: print twice the number read, or
return it from `f`.
"""

READ_FRAMES = """
import sys, gc
frame = sys._getframe()
seen = []
while frame:
    seen.extend(repr(value) for value in frame.f_locals.values())
    frame = frame.f_back
seen.extend(repr(thing) for thing in gc.get_objects() if isinstance(thing, (str, bytes, dict, list)))
text = " ".join(seen)
print("11702" if "11702" in text else "not found")
def f(x):
    return 11702 if "11702" in text else None
"""

ALWAYS_EQUAL = """
class Yes(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
    def __repr__(self): return "11702"
    __str__ = __repr__
class Anything:
    def __eq__(self, other): return True
    def __repr__(self): return "Anything"
print(Anything())
def f(x):
    return Anything() if x % 2 else Yes(0)
"""

MONKEYPATCH = """
import builtins, json, sys, io
json.dumps = lambda *a, **k: "true"
json.JSONEncoder.encode = lambda *a, **k: "true"
builtins.str = lambda *a: "ok"
builtins.repr = lambda *a: "ok"
for module in list(sys.modules.values()):
    for name in ("same_text", "same_value", "_close", "judge"):
        if hasattr(module, name):
            setattr(module, name, lambda *a, **k: True)
def f(x):
    return True
"""

FORGE_REPORT = """
import os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b'{"status": "done"}\\n' * 20)
    except OSError:
        pass
os._exit(0)
"""

ATTACKS = {
    "read the expected output from frames and the heap": READ_FRAMES,
    "equal to everything": ALWAYS_EQUAL,
    "replace the comparison": MONKEYPATCH,
    "forge the report": FORGE_REPORT,
    "exit at once": "import os\nos._exit(0)",
    "sys.exit": "import sys\nsys.exit(0)",
    "raise SystemExit in the call": "def f(x):\n    raise SystemExit(0)",
    "fork bomb": "import os\nwhile True:\n    os.fork()",
    "fork bomb through posix": "import posix\nwhile True:\n    posix.fork()",
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n"
        "    os._exit(0)\nprint('x')"
    ),
    "subprocess": "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)",
    "infinite loop": "while True:\n    pass",
    "infinite loop that survives exceptions": (
        "import signal\nfor number in range(1, 65):\n    try:\n        signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    try:\n"
        "        while True:\n            pass\n    except BaseException:\n        continue"
    ),
    "sleep": "import time\ntime.sleep(1000)",
    "stop itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nsignal.pause()",
    "replace itself": "import os\nos.execv('/bin/sleep', ['sleep', '1000'])",
    "memory bomb": "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 24))",
    "memory bomb in files": (
        "import os\nwhile True:\n    descriptor = os.memfd_create('x')\n    os.write(descriptor, bytes(1 << 22))"
    ),
    "infinite output": "while True:\n    print('x' * 1000)",
    "infinite output on standard error": "import sys\nwhile True:\n    print('x' * 1000, file=sys.stderr)",
    "thread bomb": (
        "import threading, time\nwhile True:\n"
        "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    ),
    "thread that stays": "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
    "deep recursion": ("import sys\nsys.setrecursionlimit(10**9)\ndef g(x):\n    return max([x], key=g)\ng(1)"),
    "crash": "import ctypes\nctypes.string_at(0)",
    "kill the server": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "kill everything": "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "raise its limits": (
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))"
    ),
}

# Each of these writes `escaped` to a result that the judge compares only if it got out.
ESCAPES = {
    "read a file": "open({secret!r}).read()",
    "write a file": "open({target!r}, 'w').write('x')",
    "write to /tmp": "open('/tmp/ratchet-attack', 'w').write('x')",
    "read the server's memory": "import os; open(f'/proc/{{os.getppid()}}/mem', 'rb').read(1)",
    "connect over TCP": "import socket; socket.create_connection(('127.0.0.1', {port}), timeout=1)",
    "connect over a Unix socket": "import socket; socket.socket(socket.AF_UNIX).connect('/run/anything')",
    "mount": "import ctypes, os; ctypes.CDLL(None, use_errno=True).mount(b'x', b'/', b'tmpfs', 0, None) and 1 / 0",
    "new user namespace": "import ctypes; ctypes.CDLL(None).unshare(0x10000000) and 1 / 0",
    "ptrace the server": "import ctypes, os; ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) and 1 / 0",
}

LEGAL = {
    "plain": "print(2 * int(input()))",
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
}  # fmt: skip
