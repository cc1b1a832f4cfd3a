"""Attacks on what is outside: `REACH` are bodies of a function that get at something there.

What does not raise has succeeded, and is then given the right answer to print or return. Fields in braces are filled in
by the test: files, sockets and processes of the judge.
"""

import platform

_MACHINE = {"x86_64": 0, "aarch64": 1}[platform.machine()]

# A call that is made and fails for its arguments was not stopped: only a refusal counts.
SYSCALL = """
import ctypes, errno
def syscall(number, *arguments):
    result = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if result < 0 and ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        raise PermissionError
    return result
"""

_FILES = {
    "read a file": "open({secret!r}).read()",
    "list a directory": "os.listdir({directory!r})",
    "read the judge's own source": "open({source!r}).read()",
    "read the command line of the judge": "open('/proc/{judge}/cmdline').read()",
    "read the environment of the judge": "open('/proc/{judge}/environ').read()",
    "read the memory of the judge": "open('/proc/{judge}/mem', 'rb')",
    "read the memory of the server": "open(f'/proc/{{os.getppid()}}/mem', 'rb')",
    "count the descriptors of the judge": "os.listdir('/proc/{judge}/fd')",
    "open a descriptor of the judge": "open('/proc/{judge}/fd/1')",
    "enter the root of the judge": "os.listdir('/proc/{judge}/root')",
    "write a file": "open({target!r}, 'w').write('x')",
    "write to an existing file": "os.write(os.open({secret!r}, os.O_WRONLY), b'x')",
    "append to an existing file": "open({secret!r}, 'a').write('x')",
    "open an unnamed file": "os.open({directory!r}, os.O_TMPFILE | os.O_WRONLY)",
    "empty a file": "os.truncate({secret!r}, 0)",
    "delete a file": "os.unlink({secret!r})",
    "rename a file": "os.rename({secret!r}, {target!r})",
    "make a hard link": "os.link({secret!r}, {target!r})",
    "make a symbolic link": "os.symlink({secret!r}, {target!r})",
    "make a directory": "os.mkdir({target!r})",
    "make a FIFO": "os.mkfifo({target!r})",
    "change permissions": "os.chmod({secret!r}, 0o600)",
    "change times": "os.utime({secret!r}, (0, 0))",
    "set an attribute": "os.setxattr({secret!r}, 'user.x', b'x')",
    "lock a file": "fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)",
    "write to /tmp": "open('/tmp/ratchet-attack', 'w').write('x')",
    "write to /dev/shm": "open('/dev/shm/ratchet-attack', 'w').write('x')",
    "write to /etc": "open('/etc/ratchet-attack', 'w').write('x')",
    "write to the working directory": "open('ratchet-attack', 'w').write('x')",
    "delete a file of the interpreter": "os.unlink(decimal.__file__)",
    "edit a file of the interpreter": "open(decimal.__file__, 'r+').write('x')",
    "write bytecode": "open(decimal.__cached__, 'r+b').write(b'x')",
}

_PROCESSES = {
    "fork": "os.fork() or os._exit(0)",
    "fork behind the os module": "import posix; posix.fork() or os._exit(0)",
    "a table of descriptors of its own": "syscall(436, 250, 255, 2)",
    "a thread with a table of its own": f"syscall({(56, 220)[_MACHINE]}, 0x10900, 0, 0, 0, 0)",
    "spawn": "os.posix_spawn('/bin/sh', ['sh', '-c', ':'], {{}})",
    "a shell": "assert os.system('exit 0') == 0",
    "a subprocess": "subprocess.Popen([sys.executable, '-c', ''], start_new_session=True)",
    "multiprocessing": "import multiprocessing; multiprocessing.get_context('fork').Process(target=print).start()",
    "a process pool": (
        "import concurrent.futures; concurrent.futures.ProcessPoolExecutor(1).submit(int).result(timeout=0.1)"
    ),
    "replace itself": "os.execv('/bin/sh', ['sh', '-c', 'echo 11702'])",
    "kill the server": "os.kill(os.getppid(), signal.SIGKILL)",
    "kill everything": "os.kill(-1, signal.SIGKILL)",
    "kill its group": "os.kill(0, signal.SIGKILL)",
    "kill the judge": "os.kill({judge}, 0)",
    "signal through a descriptor's owner": (
        "ends = os.pipe(); fcntl.fcntl(ends[0], fcntl.F_SETOWN, os.getppid()); fcntl.fcntl(ends[0], 10, signal.SIGKILL)"
    ),
    "limits of the judge": "resource.prlimit({judge}, resource.RLIMIT_NOFILE)",
    "have the kernel kill it": "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))",
    "raise its limits": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "a priority": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
    "pin the judge to a core": "os.sched_setaffinity({judge}, {{0}})",
    "become root": "assert os.geteuid() != 0; os.setuid(0)",
    "a session of its own": "os.setsid()",
    "type into a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
}

_NETWORK = {
    "TCP": "socket.create_connection(('127.0.0.1', {tcp}), timeout=1)",
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))",
    "TCP over IPv6": "socket.socket(socket.AF_INET6)",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "listen": "socket.create_server(('127.0.0.1', 0))",
    "a Unix socket": "socket.socket(socket.AF_UNIX).connect({unix!r})",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect({abstract!r})",
    "a datagram through a pair": (
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', {unix_datagram!r})"
    ),
    "a connected pair led astray": "socket.socketpair()[0].connect({unix!r})",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a virtual machine socket": "socket.socket(40, socket.SOCK_STREAM)",
    "a web page": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{tcp}/', timeout=1)",
}

# Name, x86_64 and aarch64 numbers, arguments.
_SYSCALLS = {
    "clone a process": (56, 220, "17, 0, 0, 0, 0"),
    "clone3": (435, 435, "0, 0"),
    "execveat": (322, 281, "-1, b'/bin/sh', 0, 0, 0"),
    "ptrace": (101, 117, "16, {judge}, 0, 0"),
    "process_vm_readv": (310, 270, "{judge}, 0, 0, 0, 0, 0"),
    "process_vm_writev": (311, 271, "{judge}, 0, 0, 0, 0, 0"),
    "pidfd_open": (434, 434, "{judge}, 0"),
    "pidfd_getfd": (438, 438, "0, 0, 0"),
    "pidfd_send_signal": (424, 424, "0, 0, 0, 0"),
    "tgkill": (234, 131, "{judge}, {judge}, 0"),
    "rt_sigqueueinfo": (129, 138, "{judge}, 0, 0"),
    "kcmp": (312, 272, "{judge}, {judge}, 0, 0, 0"),
    "process_madvise": (440, 440, "0, 0, 0, 0, 0"),
    "unshare": (272, 97, "0x10000000"),
    "setns": (308, 268, "0, 0"),
    "mount": (165, 40, "b'x', b'/', b'tmpfs', 0, 0"),
    "umount": (166, 39, "b'/', 2"),
    "pivot_root": (155, 41, "b'.', b'.'"),
    "chroot": (161, 51, "b'/'"),
    "open_tree": (428, 428, "-100, b'/', 1"),
    "fsopen": (430, 430, "b'tmpfs', 0"),
    "openat2": (437, 437, "-100, b'/dev/null', 0, 0"),
    "open_by_handle_at": (304, 265, "-100, 0, 0"),
    "bpf": (321, 280, "0, 0, 0"),
    "io_uring": (425, 425, "1, 0"),
    "perf_event_open": (298, 241, "0, 0, -1, -1, 0"),
    "userfaultfd": (323, 282, "1"),
    "keyring": (248, 217, "b'user', b'x', b'x', 1, -3"),
    "personality": (135, 92, "0x40000"),
    "a filter of its own": (317, 277, "1, 0, 0"),
    "a ruleset of its own": (444, 444, "0, 0, 0"),
    "a rule added to our ruleset": (445, 445, "3, 1, 0, 0"),
    "dumpable again": (157, 167, "4, 1, 0, 0, 0"),
    "outlive the server": (157, 167, "1, 0, 0, 0, 0"),
    "capabilities": (126, 91, "0, 0"),
    "memory in a file": (319, 279, "b'x', 0"),
    "shared memory": (29, 194, "0, 1 << 20, 0o1600"),
    "semaphores": (64, 190, "0, 1, 0o1600"),
    "message queue": (68, 186, "0, 0o1600"),
    "named message queue": (240, 180, "b'x', 0o101, 0o600, 0"),
    "sendmsg": (46, 211, "0, 0, 0"),
    "watch files": (294, 26, "0"),
    "splice": (275, 76, "0, 0, 1, 0, 1, 0"),
    "host name": (170, 161, "b'x', 1"),
    "the clock": (227, 112, "0, 0"),
    "a kernel module": (175, 105, "0, 0, b''"),
    "kernel messages": (103, 116, "3, 0, 0"),
    "swap": (167, 224, "b'/', 0"),
    "a call of another table": (0x40000000 + 39, 0x40000000 + 39, ""),
}

REACH = {
    **_FILES,
    **_PROCESSES,
    **{f"connect: {name}": body for name, body in _NETWORK.items()},
    **{f"system call: {name}": f"syscall({row[_MACHINE]}, {row[2]})" for name, row in _SYSCALLS.items()},
}

ON_C = {
    "read a file", "list a directory", "read the judge's own source", "read the command line of the judge",
    "read the environment of the judge", "count the descriptors of the judge", "steal: the file",
}  # fmt: skip
NOT_STOPPED: dict[str, set[str]] = {"A": set(), "B": set(), "C": ON_C}
"""What a level may let through: on C, reading what the solutions' user may read (docs/explanation/sandbox.md)."""
