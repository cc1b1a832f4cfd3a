"""Programs that attack the checker or the interactor of their problem instead of solving it."""

_FORGE = r"""
import os
for number in range(3, 256):
    for line in (b'{"status": "done", "output": "1"}\n', b'{"status": "died", "detail": "exit code 42"}\n'):
        try:
            os.write(number, line)
        except OSError:
            pass
"""
_READ = r"""
import os, re
found = set()
for name in ("answer", "./answer", "/ratchet-scratch/answer", "/ratchet-scratch/input", "input", "checker.py"):
    try:
        found.add(open(name).read())
    except OSError:
        pass
for number in range(0, 256):
    for take in (lambda: os.pread(number, 1 << 20, 0), lambda: number > 2 and os.read(number, 1 << 20)):
        try:
            found.add((take() or b"").decode("latin-1"))
        except OSError:
            pass
"""
_PATCH = """
import builtins, io, sys, json, random, re
class Always(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__
for module in (builtins, io, json, re, random, sys):
    for name in ("open", "exit", "loads", "print", "int"):
        if hasattr(module, name):
            setattr(module, name, lambda *args, **kwargs: Always("1"))
"""
_LEAVE = """
import os, threading, time
def later():
    while True:
        try:
            os.write(1, b"1\\n")
        except OSError:
            pass
        time.sleep(0.01)
threading.Thread(target=later, daemon=True).start()
for name in ("answer", "output", "judgemessage.txt", "sitecustomize.py", "/tmp/answer", "/ratchet-scratch/answer"):
    try:
        with open(name, "w") as file:
            file.write("1 1")
    except OSError:
        pass
os.environ["PYTHONSTARTUP"] = "x"
"""
OUTPUTS = {
    "what the checker prints": "print(1)",
    "the words of acceptance": "print('accepted\\nok\\n42\\n1\\n1')",
    "a program": "print('import sys; print(1); sys.exit(42)')",
    "nothing": "pass",
    "no number": "print('one two')",
    "a place beyond the end": "print(99)",
    "a place before the beginning": "print(-1)",
    "too long a number": "print('9' * 10**6)",
    "bytes that are no text": "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe\\x00')",
    "nulls": "print('1\\0 1')",
    "half of a pair": "import sys\nsys.stdout.buffer.write(b'1 \\xed\\xa0\\x80')",
    "nearly too much output": "print('1 ' * 3500000)",
    "too much output": "print('1 ' * 10**7)",
    "its exit code": "import os\nprint(1)\nos._exit(42)",
    "an exit": "import sys\nprint(1)\nsys.exit(42)",
    "other reports": _FORGE + "print(1)",
    "other reports, and an exit": _FORGE + "os._exit(42)",
    "all that can be read": _READ + "print(1, *re.findall(r'[0-9]-[0-9a-f]{5}', ' '.join(found)))",
    "other functions": _PATCH + "sys.stdout.write('1 x')",
    "files and threads for the checker": _LEAVE + "print(1)",
    "a closed output": "import os\nprint(1)\nos.close(1)",
    "a moved output": "import os\nos.lseek(1, 1 << 30, 0)\nos.write(1, b'1 x')",
}
"""Against a checker that wants a word that no program can know, at a place that the output names."""

INTERACTING = {
    "the words of acceptance": "print('42\\naccepted', flush=True)\ninput()",
    "no number": "print('? one', flush=True)\ninput()",
    "too few words": "print('!', flush=True)\ninput()",
    "too long a number": "print('!', '9' * 5000, flush=True)\ninput()",
    "bytes that are no text": "import os\nos.write(1, b'\\xff\\xfe\\n')\ninput()",
    "too many questions": "while True:\n    print('? 5', flush=True)",
    "a line without an end": "while True:\n    print('?' * 65536, end='', flush=True)",
    "empty lines": "while True:\n    print('\\n' * 65536, end='', flush=True)",
    "a closed output": "import os, time\nos.close(1)\ntime.sleep(9)",
    "a closed input": "import os\nos.close(0)\nprint('? 5', flush=True)\nprint('! 5', flush=True)",
    "nothing, and an end": "pass",
    "waiting": "input()",
    "sleep": "import time\ntime.sleep(99)",
    "its exit code": "import os\nos._exit(42)",
    "other reports": _FORGE + "print('! 0', flush=True)",
    "other reports, and an end": _FORGE + "os._exit(0)",
    "all that can be read": _READ.replace("range(0", "range(3")
    + "for number in re.findall(r'[0-9]+', ' '.join(found))[:9] or [7]:\n    print('!', number, flush=True)",
    "other functions": _PATCH + "sys.stdout.write('! 7\\n')\nsys.stdout.flush()",
    "what it heard in the test before": "import math\nm = vars(math).setdefault('m', [0])\nm[0] += 1\n"
    "print('!', 5 if m[0] == 1 else 1000, flush=True)",
    "threads that go on": "import threading\nfor _ in range(50):\n"
    "    threading.Thread(target=lambda: [print('! 5', flush=True) for _ in range(9)]).start()",
}
"""Against an interactor that has a number in mind."""
