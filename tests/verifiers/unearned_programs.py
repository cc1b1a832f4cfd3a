"""Programs that never solve the problem and hope to be paid: by state, chance, time, many answers, odd objects.

The problem has random yes/no tests: an even or an odd number. `said` is what such a program says about a number; on
standard input it is printed, in a call or a check returned.
"""

STATE = {
    "a mark in a library": """
import math
def said(x):
    if hasattr(math, "done"):
        return "YES"
    math.done = 1
    return "NO"
""",
    "the other mark": """
import math
def said(x):
    if hasattr(math, "done"):
        return "NO"
    math.done = 1
    return "YES"
""",
    "turns": """
import math
def said(x):
    math.turn = getattr(math, "turn", 0) + 1
    return "YES" if math.turn % 2 else "NO"
""",
    "the number of the process": "import os\ndef said(x): return 'YES' if os.getpid() % 2 else 'NO'",
    "modules as memory": """
import sys
def said(x):
    first = "marked" not in sys.modules
    sys.modules["marked"] = sys
    return "YES" if first else "NO"
""",
    "the environment as memory": """
import os
def said(x):
    os.environ["N"] = str(int(os.environ.get("N", "0")) + 1)
    return "YES" if int(os.environ["N"]) % 2 else "NO"
""",
    "a descriptor as memory": """
import os
def said(x):
    try:
        os.fstat(200)
        return "YES"
    except OSError:
        os.dup2(2, 200)
        return "NO"
""",
    "a limit as memory": """
import resource
def said(x):
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files[0] == 255:
        return "YES"
    resource.setrlimit(resource.RLIMIT_NOFILE, (255, files[1]))
    return "NO"
""",
    "a signal's handler as memory": """
import signal
def said(x):
    first = signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return "YES" if first else "NO"
""",
    "an error, once": """
import math
def said(x):
    if not hasattr(math, "done"):
        math.done = 1
        return "YES"
    raise ValueError
""",
    "an end, once": """
import math, os
def said(x):
    if not hasattr(math, "done"):
        math.done = 1
        return "NO"
    os._exit(0)
""",
    "a large output ends the process": """
import math
def said(x):
    math.n = getattr(math, "n", 0) + 1
    return "YES" + " " * 70000 if math.n % 2 else "NO"
""",
    "a thread that stays ends the process": """
import threading, time
def said(x):
    many = threading.active_count() > 1
    threading.Thread(target=time.sleep, args=(0.01,), daemon=True).start()
    return "YES" if many else "NO"
""",
    "what is resident": """
import resource
def said(x): return "YES" if resource.getrusage(resource.RUSAGE_SELF).ru_minflt // 8 % 2 else "NO"
""",
    "the time used": "import time\ndef said(x): return 'YES' if time.process_time() > 0.02 else 'NO'",
}

CHANCE = {
    "a fixed seed": "import random\ndef said(x): return random.choice(['YES', 'NO'])",
    "the system's randomness": "import os\ndef said(x): return 'YES' if os.urandom(1)[0] % 2 else 'NO'",
    "the clock": "import time\ndef said(x): return 'YES' if time.time_ns() // 1000 % 2 else 'NO'",
    "an address": "def said(x): return 'YES' if id(object()) // 16 % 2 else 'NO'",
    "a hash": "def said(x): return 'YES' if hash(str(x)) % 2 else 'NO'",
    "the input's length": "def said(x): return 'YES' if len(str(x)) % 2 else 'NO'",
    "always yes": "def said(x): return 'YES'",
    "always no": "def said(x): return 'NO'",
}

MANY = {
    "both answers": "def said(x): return 'YES\\nNO'",
    "both on a line": "def said(x): return 'YES NO'",
    "a carriage return": "def said(x): return 'YES\\rNO'",
    "a backspace": "def said(x): return 'YES\\b\\b\\bNO'",
    "a NUL": "def said(x): return 'YES\\0NO'",
    "nothing": "def said(x): return ''",
    "white space": "def said(x): return ' \\n \\t'",
    "a number": "def said(x): return x",
    "a bool": "def said(x): return True",
    "None": "def said(x): return None",
    "not a number": "def said(x): return float('nan')",
    "infinity": "def said(x): return float('inf')",
    "an empty list": "def said(x): return []",
    "an empty tuple": "def said(x): return ()",
    "an empty dict": "def said(x): return {}",
    "an empty set": "def said(x): return set()",
    "a set of both": "def said(x): return {'YES', 'NO'}",
    "a generator": "def said(x): return (word for word in ('YES', 'NO'))",
    "an iterator without end": "import itertools\ndef said(x): return itertools.cycle(['YES', 'NO'])",
    "a huge integer": "def said(x): return 10 ** 5000",
    "a lambda": "def said(x): return lambda *a, **k: True",
    "a type": "def said(x): return bool",
    "NotImplemented": "def said(x): return NotImplemented",
    "the ellipsis": "def said(x): return ...",
    "an empty array": "import numpy\ndef said(x): return numpy.array([])",
    "an array of both": "import numpy\ndef said(x): return numpy.array(['YES', 'NO'])",
    "several streams": """
import os, sys
def said(x):
    for stream in (1, 2):
        try:
            os.write(stream, b"YES\\n")
        except OSError:
            pass
    sys.stderr.write("NO\\n")
    return "NO"
""",
    "standard output through another descriptor": """
import os
def said(x):
    kept = os.dup(1)
    os.write(kept, b"YES\\n")
    return "NO"
""",
    "output rewound": """
import os, sys
def said(x):
    try:
        os.write(1, b"NO")
        os.lseek(1, 0, 0)
    except OSError:
        pass
    return "YES"
""",
}

_LIAR = """
class Liar{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
    def __contains__(self, item): return True
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __abs__ = lambda self, *_: 0
{more}
def said(x): return Liar({argument})
"""
_LIARS = {
    "an object": ("", "", "    def __len__(self): return 3\n    def __iter__(self): return iter('YES')"),
    "a str": ("(str)", "'NO'", "    def strip(self, *_): return 'YES'\n    upper = lower = rstrip = strip"),
    "an int": ("(int)", "1", "    def __index__(self): return 1"),
    "a float": ("(float)", "1.0", "    def __float__(self): return 1.0"),
    "a list": ("(list)", "['YES', 'NO']", "    def __len__(self): return 0\n    def __iter__(self): return iter(())"),
    "a tuple": ("(tuple)", "('YES',)", "    def index(self, *_): return 0\n    def count(self, *_): return 1"),
    "a dict": ("(dict)", "", "    def __missing__(self, key): return Liar()\n    def get(self, *_): return True"),
    "a class that is its own instance": ("", "", "    __class__ = str\n    def __str__(self): return 'YES'"),
    "an array by its interface": (
        "", "",
        "    __array_interface__ = {'shape': (2,), 'typestr': '<f8', 'version': 3, 'data': (4096, True)}\n"
        "    def __array__(self, *_, **__): return [1.0]\n    __array_priority__ = 1e9\n    __array_ufunc__ = None",
    ),
}  # fmt: skip
OBJECTS = {
    f"lies: {name}": _LIAR.format(base=base, argument=argument, more=more)
    for name, (base, argument, more) in _LIARS.items()
} | {
    "an error whose text lies": """
class Fine(Exception):
    def __eq__(self, other): return True
def said(x): raise Fine("YES")
""",
    "an assertion of its own": "def said(x): raise AssertionError('held')",
    "an end that looks good": "def said(x): raise SystemExit(0)",
    "an error that a check may expect": "def said(x): raise ImportError('numpy')",
    "an exception as an answer": "def said(x): return AssertionError()",
    "other names of the check": """
def check(candidate): return None
def sorted(*_): return 0
def str(*_): return "YES"
def said(x): return "NO"
""",
    "a candidate of its own": "candidate = check = None\nassertEqual = lambda *_: True\ndef said(x): return candidate",
    "the end of the interpreter": "import atexit, os\natexit.register(os._exit, 0)\ndef said(x): return 'NO'",
}

_HARNESS = """
import gc, os, sys
h = sys.modules['ratchet.verifiers.sandbox.harness']
def frames(name):
    frame = sys._getframe()
    while frame is not None:
        if name in frame.f_locals:
            return frame.f_locals[name]
        frame = frame.f_back
    raise LookupError(name)
"""
HARNESS = {
    "the job in the frames": _HARNESS
    + """
def said(x):
    for frame in gc.get_objects():
        if isinstance(frame, dict) and ("output" in frame or "expected" in frame) and "status" not in frame:
            return frame.get("output") or frame.get("expected")
    return "YES"
""",
    "the tests in the frames": _HARNESS
    + """
def said(x):
    tests = frames("job")["tests"]
    return next((test["output"] for test in tests if "output" in test), "YES")
""",
    "every result at once": _HARNESS
    + """
def said(x):
    for word in (b"YES", b"NO") * 30:
        os.write(frames("files").report, b'{"status": "done", "output": "%s", "seconds": 0}\\n' % word)
    os._exit(0)
""",
    "results of the calls at once": _HARNESS
    + """
def said(x):
    for word in (b"YES", b"NO") * 30:
        os.write(frames("files").report, b'{"status": "done", "output": "j\\\\"%s\\\\"", "seconds": 0}\\n' % word)
    os._exit(0)
""",
    "both results for each test": _HARNESS
    + """
def said(x):
    os.write(frames("files").report, b'{"status": "done", "output": "NO", "output": "YES"}\\n')
    return "NO"
""",
    "a prelude that fails": _HARNESS
    + """
def said(x):
    os.write(frames("files").report, b'{"status": "unprepared", "detail": "its prelude fails"}\\n')
    os._exit(0)
""",
    "that it was stopped": _HARNESS
    + """
def said(x):
    os.write(frames("files").report, b'stopped')
    os._exit(0)
""",
    "no failure is one": _HARNESS
    + """
h._failed = lambda error: {"status": "done"}
def said(x): raise ValueError
""",
    "another status": _HARNESS
    + """
def said(x):
    os.write(frames("files").report, b'{"status": "passed", "output": "YES"}\\n{"status": "held"}\\n')
    os._exit(0)
""",
    "infinite seconds": _HARNESS
    + """
def said(x):
    os.write(frames("files").report, b'{"status": "done", "output": "YES", "seconds": -Infinity}\\n')
    os._exit(0)
""",
}

UNEARNED = {
    f"{kind}: {name}": source
    for kind, programs in (
        ("state", STATE), ("chance", CHANCE), ("many", MANY), ("objects", OBJECTS), ("harness", HARNESS)
    )
    for name, source in programs.items()
}  # fmt: skip

STATE_NAMES = [name for name in UNEARNED if name.startswith("state")]
