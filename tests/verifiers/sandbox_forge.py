"""Attacks on the verdict. `STEAL` look for an expected output that nobody can compute; `{token}` is the pattern it
matches. `FORGE` are whole programs that lie, break, flood or stay, and never know the answer.

Fields in braces are filled in by the test: files, sockets and processes of the judge.
"""

STEAL = {
    "frames and the heap": """
def look():
    frame = sys._getframe()
    while frame:
        yield from map(repr, frame.f_locals.values())
        yield from map(repr, frame.f_globals.values())
        frame = frame.f_back
    yield from (repr(thing) for thing in gc.get_objects() if isinstance(thing, (str, bytes, dict, list)))
""",
    "the file": "def look():\n    yield open({secret!r}).read()",
    "descriptors": """
def look():
    for descriptor in range(256):
        try:
            yield os.pread(descriptor, 1 << 16, 0).decode('latin-1')
        except OSError:
            pass
""",
    "the environment": "def look():\n    yield repr((os.environ, sys.argv, sys.orig_argv, sys.path))",
    "used memory": """
def look():
    allocate = ctypes.pythonapi.PyBytes_FromStringAndSize
    allocate.restype, allocate.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t]
    for size in (100, 500, 5000, 50000, 500000):
        yield from (allocate(None, size).decode('latin-1') for _ in range(20))
""",
    "all that is mapped, page by page": """
def look():
    libc, (reading, writing) = ctypes.CDLL(None), os.pipe()
    libc.sbrk.restype = ctypes.c_void_p
    libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    top = libc.sbrk(0)
    near = [id(thing) & -(1 << 22) for thing in (object(), [], {{}}, look, re, libc)]
    for begin, end in [(top - (16 << 20), top), *((at - (1 << 22), at + (1 << 23)) for at in near)]:
        for page in range(begin & -4096, end, 4096):
            if libc.write(writing, page, 4096) == 4096:
                yield os.read(reading, 4096).decode('latin-1')
""",
    "the program that asks": """
def look():
    import socket, time
    for number in range(3, 64):
        try:
            end = socket.socket(fileno=os.dup(number))
            end.setblocking(False)
            for _ in range(3):
                end.sendall(b'\\0\\0\\0\\x02{{}}')
                time.sleep(0.01)
                yield end.recv(1 << 16).decode('latin-1')
        except OSError:
            pass
""",
    "the memory of the judge": """
def look():
    with open('/proc/{judge}/maps') as maps, open('/proc/{judge}/mem', 'rb') as memory:
        for line in maps:
            if ' rw' in line:
                memory.seek(int(line.partition('-')[0], 16))
                yield memory.read(1 << 20).decode('latin-1')
""",
}
STOLEN = """
import ctypes, gc, os, re, sys
{look}
def f(x):
    try:
        found = re.search({token!r}, " ".join(look()))
    except BaseException:
        found = None
    return found and found.group()
print(f(0))
"""

_HARNESS = "import sys\nharness = sys.modules['ratchet.verifiers.sandbox.harness']\n"

FORGE = {
    "equal to everything": """
class Anything:
    def __eq__(self, other): return True
    def __repr__(self): return "Anything"
print(Anything())
def f(x): return Anything()
""",
    "an integer that lies": """
class Yes(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
    def __int__(self): return 1
print(Yes(0))
def f(x): return Yes(0)
""",
    "a string that lies": """
class Yes(str):
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def rstrip(self, *_): return self
print(Yes("no"))
def f(x): return Yes("no")
""",
    "a list that lies": """
class Yes(list):
    def __eq__(self, other): return True
    def __len__(self): return 0
    def __iter__(self): return iter(())
def f(x): return Yes([1])
print(f(0))
""",
    "a class that lies": """
class Yes:
    __class__ = int
    __module__ = "numpy"
    def tolist(self): return None
    def __index__(self): return 1
def f(x): return Yes()
print(f(0))
""",
    "an endless value": "def f(x):\n    value = []\n    value.append(value)\n    return value",
    "a value nested too deep": (
        "def f(x):\n    value = []\n    for _ in range(10**5):\n        value = [value]\n    return value"
    ),
    "not a number": "def f(x): return float('nan')\nprint(f(0))",
    "replace the comparison": """
import builtins, json, sys
json.dumps = lambda *a, **k: "true"
json.JSONEncoder.encode = lambda *a, **k: "true"
builtins.str = lambda *a: "ok"
builtins.repr = lambda *a: "ok"
for module in list(sys.modules.values()):
    for name in ("same_text", "same_value", "_close", "judge"):
        if hasattr(module, name):
            setattr(module, name, lambda *a, **k: True)
def f(x): return True
""",
    "replace the harness": _HARNESS + "harness._run_program = harness._failed = lambda *a: {'status': 'done'}",
    "replace the harness's report": _HARNESS + "harness._taken = harness._encode = lambda *a: b'1'",
    "forge records on every descriptor": """
import os
for descriptor in range(3, 256):
    try:
        os.write(descriptor, b'{"status": "done", "output": "1"}\\n' * 20 + b'stopped')
    except OSError:
        pass
os._exit(0)
""",
    "records that are not records": """
import os
for descriptor in range(3, 256):
    try:
        os.write(descriptor, b'[[[' * 1000 + b'\\n\\xff\\x00{"status": {}}\\n')
    except OSError:
        pass
os._exit(0)
""",
    "flood every descriptor": """
import os
for descriptor in range(256):
    try:
        while os.write(descriptor, bytes(1 << 16)):
            pass
    except OSError:
        pass
""",
    "say again and again that a test is over": """
import os
while True:
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'\\n')
        except OSError:
            pass
""",
    "claim that it could not be confined": """
import os, signal
for descriptor in range(256):
    try:
        os.ftruncate(descriptor, 0)
    except OSError:
        pass
for attempt in (lambda: os.kill(os.getpid(), signal.SIGUSR1), lambda: signal.raise_signal(signal.SIGUSR1)):
    try:
        attempt()
    except OSError:
        pass
os._exit(70)
""",
    "take back what was reported": """
import os, time
if int(input()) == 5851:
    print(11702)
else:
    time.sleep(0.07)  # the judge has looked by now
    for descriptor in range(3, 64):
        try:
            os.ftruncate(descriptor, 0)
        except OSError:
            pass
    time.sleep(0.07)
    os._exit(0)
""",
    "make the server wait": """
import fcntl, os
for descriptor in range(3, 64):
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
        os.read(descriptor, 8)
    except OSError:
        pass
while True:
    pass
""",
    "close every descriptor": "import os\nos.closerange(0, 256)",
    "swap descriptors": "import os\nfor descriptor in range(3, 64):\n    os.dup2(0, descriptor)",
    "exit at once": "import os\nos._exit(0)",
    "sys.exit": "import sys\nsys.exit(0)",
    "raise SystemExit": "def f(x): raise SystemExit(0)\nf(0)",
    "exit in a thread": "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()",
    "exit while it is being reported": "import atexit, os\natexit.register(os._exit, 0)",
    "exit when it is collected": "import os\nclass C:\n    def __del__(self): os._exit(0)\nkept = C()\ndel kept",
    "fork bomb": "import os\nwhile True:\n    os.fork()",
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n"
        "    os._exit(0)\nprint('x')"
    ),
    "thread bomb": (
        "import threading, time\nthreading.stack_size(32768)\nwhile True:\n"
        "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    ),
    "thread that stays": "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
    "thread that answers for a later test": """
import os, threading, time
def wait():
    while True:
        time.sleep(0.001)
        os.write(1, b"1")
threading.Thread(target=wait, daemon=True).start()
print("0")
""",
    "infinite loop": "while True:\n    pass",
    "infinite loop in C": "sum(range(10**18))",
    "infinite loop that survives exceptions": """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    try:
        while True:
            pass
    except BaseException:
        continue
""",
    "block every signal": (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    pass"
    ),
    "sleep": "import time\ntime.sleep(1000)",
    "wait for input that never comes": "import os\nos.read(os.pipe()[0], 1)",
    "wait for itself": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "stop itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nsignal.pause()",
    "memory bomb": "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 24))",
    "memory bomb in pipes": """
import os
while True:
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    os.write(ends[1], bytes(1 << 16))
""",
    "memory bomb in shared memory": "import mmap\nhoard = []\nwhile True:\n    hoard.append(mmap.mmap(-1, 1 << 24))",
    "memory bomb in shared memory that nobody maps": """
import mmap
hoard = []
while True:
    hoard.append(mmap.mmap(-1, 1 << 24))
    hoard[-1].write(bytes(1 << 24))
    hoard[-1].madvise(mmap.MADV_DONTNEED)
""",
    "huge integer": "print(len(str(9 ** 9 ** 8)))",
    "huge output": "while True:\n    print('x' * 100000)",
    "huge output on standard error": "import sys\nwhile True:\n    print('x' * 1000, file=sys.stderr)",
    "huge sparse output": "import os\nos.ftruncate(1, 1 << 40)",
    "huge seek": "import os\nos.lseek(1, 1 << 40, 0)\nos.write(1, b'x')",
    "huge value": "def f(x): return 'x' * (1 << 25)\nprint(f(0))",
    "huge error": "raise ValueError('x' * (1 << 24))",
    "deep recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef g(x):\n    return max([x], key=g)\ng(1)",
    "a type nested too deep": "print(eval('(' * 50000 + ')' * 50000))",
    "crash": "import ctypes\nctypes.string_at(0)",
    "abort": "import os\nos.abort()",
    "crash of the interpreter": "import sys\nsys._getframe.__self__.__dict__.clear()",
    "cycles that nobody collects": """
import gc
gc.disable()
while True:
    cycle = [bytearray(1 << 20)]
    cycle.append(cycle)
""",
    "an error that cannot be shown": """
class Nasty(BaseException):
    def __str__(self): raise Nasty
    __repr__ = __str__
raise Nasty
""",
    "hook into imports": """
import builtins, sys
sys.meta_path.insert(0, type("Finder", (), {"find_spec": lambda *a: 1 / 0}))
builtins.__import__ = lambda *a, **k: 1 / 0
""",
    "trace what comes after": """
import sys
def trace(*_): raise SystemExit(0)
sys.setprofile(trace)
sys.settrace(trace)
""",
    "leave the streams broken": """
import io, sys
sys.stdout = sys.stdin = sys.__stdout__ = None
io.TextIOWrapper = None
""",
    "leave the builtins broken": """
import builtins
for name in ("print", "open", "len", "str"):
    delattr(builtins, name)
""",
    "leave state for the next test": (
        "import math\nmath.seen = getattr(math, 'seen', 0) + 1\nprint(11702 if math.seen == 1 else 0)\n"
        "def f(x): return 11702 if math.seen == 1 else 0"
    ),
    "machine code for another architecture": """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))  # getpid through the 32-bit table
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
""",
    "a NUL in the source": "print(1)\0",
    "not a program": "def f(x:\n",
    "a program that never compiles": "x = " + "(" * 5000,
}  # fmt: skip
