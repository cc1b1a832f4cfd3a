"""Attacks by programs in C++. Fields in braces are filled in by the test.

`REACH` are expressions that are true if they get at something outside; `STEAL` are functions that look for an expected
output, which matches `{token}`; `FORGE` are whole programs that lie, break, flood or stay, and never know the answer.
"""

import re

from tests.verifiers.sandbox_reach import _MACHINE, _SYSCALLS

HEADERS = """
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <initializer_list>
#include <linux/netlink.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>
#define READ int x; if (scanf("%d", &x) != 1) return 1;
"""

# A call that is made and fails for its arguments was not stopped: only a refusal counts.
HELPERS = """
template <class... Arguments> bool made(long number, Arguments... arguments) {{
    errno = 0;
    return syscall(number, arguments...) >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS);
}}
bool opened(const char *path, int flags = O_RDONLY) {{ return open(path, flags, 0666) >= 0; }}
bool owned(const char *name) {{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", getppid(), name);
    return opened(path);
}}
bool reached_tcp(int port) {{
    sockaddr_in to = {{AF_INET, htons(port), {{htonl(INADDR_LOOPBACK)}}, {{}}}};
    return connect(socket(AF_INET, SOCK_STREAM, 0), (sockaddr *)&to, sizeof to) == 0;
}}
bool reached_unix(int end, const char *name, int abstract) {{
    sockaddr_un to = {{AF_UNIX, {{}}}};
    strcpy(to.sun_path + abstract, name);
    return connect(end, (sockaddr *)&to, 2 + abstract + strlen(name)) == 0;
}}
bool sent(const char *name) {{
    int ends[2];
    sockaddr_un to = {{AF_UNIX, {{}}}};
    strcpy(to.sun_path, name);
    return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && sendto(ends[0], "x", 1, 0, (sockaddr *)&to, sizeof to) == 1;
}}
bool ran(const char *path) {{
    char *argv[] = {{(char *)path, (char *)"-c", (char *)"echo reached", 0}};
    return execv(path, argv) == 0;
}}
bool ran_at(int file, const char *path, int flags) {{
    char *argv[] = {{(char *)"sh", (char *)"-c", (char *)"echo reached", 0}};
    return syscall(SYS_execveat, file, path, argv, argv + 3, flags) >= 0;
}}
bool ran_own_output() {{
    static const unsigned char head[64] = {{0x7f, 'E', 'L', 'F', 2, 1, 1}};
    if (write(1, head, sizeof head) != sizeof head) return false;
    return made(SYS_execveat, 1, "", 0, 0, AT_EMPTY_PATH) && errno != ETXTBSY;
}}
bool limit(int which, rlim_t value) {{
    rlimit wanted = {{value, value}};
    return setrlimit(which, &wanted) == 0;
}}
bool second_limit() {{
    rlimit old;
    return syscall(SYS_prlimit64, {judge}, RLIMIT_NOFILE, 0, &old) == 0;
}}
bool split_table() {{
    return syscall(SYS_close_range, 250, 255, 2) == 0;
}}
bool owner_signal() {{
    int ends[2];
    return pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getppid()) == 0;
}}
"""

REACH = {
    "read a file": 'opened("{secret}")',
    "list a directory": 'opendir("{directory}") != 0',
    "read the judge's own source": 'opened("{source}")',
    "read the command line of the judge": 'opened("/proc/{judge}/cmdline")',
    "read the environment of the judge": 'opened("/proc/{judge}/environ")',
    "read the memory of the judge": 'opened("/proc/{judge}/mem")',
    "read the memory of the server": 'owned("mem")',
    "read a descriptor of the server": 'owned("fd/3")',
    "list the descriptors of the judge": 'opendir("/proc/{judge}/fd") != 0',
    "read its own memory": 'opened("/proc/self/mem")',
    "read a header": 'opened("/usr/include/stdio.h")',
    "read the C library": 'opened("/lib/x86_64-linux-gnu/libc.so.6") || opened("/usr/lib/os-release")',
    "read the compiler's directory": 'opened("/ratchet-scratch") || opened(".")',
    "write a file": 'opened("{target}", O_WRONLY | O_CREAT)',
    "write to an existing file": 'opened("{secret}", O_WRONLY)',
    "append to an existing file": 'opened("{secret}", O_WRONLY | O_APPEND)',
    "an unnamed file": 'opened("{directory}", O_WRONLY | O_TMPFILE)',
    "empty a file": 'truncate("{secret}", 0) == 0',
    "delete a file": 'unlink("{secret}") == 0',
    "rename a file": 'rename("{secret}", "{target}") == 0',
    "make a hard link": 'link("{secret}", "{target}") == 0',
    "make a symbolic link": 'symlink("{secret}", "{target}") == 0',
    "make a directory": 'mkdir("{target}", 0700) == 0',
    "make a FIFO": 'mkfifo("{target}", 0600) == 0',
    "change permissions": 'chmod("{secret}", 0600) == 0',
    "change times": 'utime("{secret}", 0) == 0',
    "set an attribute": 'setxattr("{secret}", "user.x", "x", 1, 0) == 0',
    "lock its input": "flock(0, LOCK_EX | LOCK_NB) == 0",
    "write to /tmp": 'opened("/tmp/ratchet-attack", O_WRONLY | O_CREAT)',
    "write to /dev/shm": 'opened("/dev/shm/ratchet-attack", O_WRONLY | O_CREAT)',
    "write to the working directory": 'opened("ratchet-attack", O_WRONLY | O_CREAT)',
    "write to the compiler's directory": 'opened("/ratchet-scratch/x", O_WRONLY | O_CREAT)',
    "write to itself": 'opened("/proc/self/exe", O_WRONLY)',
    "delete a header": 'unlink("/usr/include/stdio.h") == 0',
    "fork": "fork() >= 0",
    "vfork": "syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) >= 0",
    "system": 'system("exit 0") == 0',
    "popen": 'popen("true", "r") != 0',
    "spawn": 'posix_spawn(0, "/bin/true", 0, 0, environ, environ) == 0',
    "a shell": 'ran("/bin/sh")',
    "another interpreter": 'ran("/usr/bin/python3")',
    "the dynamic loader": 'ran("/lib64/ld-linux-x86-64.so.2")',
    "the compiler": 'ran("/usr/bin/g++")',
    "itself": 'ran("/proc/self/exe")',
    "a shell through a descriptor": 'ran_at(0, "/bin/sh", AT_EMPTY_PATH)',
    "a shell in a directory": 'ran_at(AT_FDCWD, "/bin/sh", 0)',
    "its output": "ran_own_output()",
    "its input": 'syscall(SYS_execveat, 0, "", 0, 0, AT_EMPTY_PATH) >= 0',
    "its descriptor once more": 'syscall(SYS_execveat, 255, "", 0, 0, AT_EMPTY_PATH) >= 0',
    "kill the server": "kill(getppid(), SIGKILL) == 0",
    "kill everything": "kill(-1, SIGKILL) == 0",
    "kill its group": "kill(0, SIGKILL) == 0",
    "kill itself": "kill(getpid(), SIGKILL) == 0",
    "signal the judge": "kill({judge}, 0) == 0",
    "signal through a descriptor's owner": "owner_signal()",
    "be traced": "ptrace(PTRACE_TRACEME, 0, 0, 0) == 0",
    "trace the server": "ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0",
    "limits of the judge": "second_limit()",
    "have the kernel kill it": "limit(RLIMIT_CPU, 1)",
    "raise its memory": "limit(RLIMIT_AS, RLIM_INFINITY)",
    "raise its files": "limit(RLIMIT_NOFILE, 100000)",
    "a priority": "setpriority(PRIO_PROCESS, 0, -5) == 0",
    "become root": "setuid(0) == 0 && geteuid() != 0",
    "a session of its own": "setsid() >= 0",
    "type into a terminal": 'ioctl(0, TIOCSTI, "x") == 0',
    "a table of descriptors of its own": "split_table()",
    "outlive the server": "prctl(PR_SET_PDEATHSIG, 0) == 0",
    "be dumpable": "prctl(PR_SET_DUMPABLE, 1) == 0",
    "a base for other addresses": "made({arch_prctl}, 0x1001, 0)",
    "connect: TCP": "reached_tcp({tcp})",
    "connect: UDP": "socket(AF_INET, SOCK_DGRAM, 0) >= 0",
    "connect: IPv6": "socket(AF_INET6, SOCK_STREAM, 0) >= 0",
    "connect: raw": "socket(AF_INET, SOCK_RAW, 1) >= 0",
    "connect: netlink": "socket(AF_NETLINK, SOCK_RAW, 0) >= 0",
    "connect: packets": "socket(17, SOCK_RAW, 0) >= 0",
    "connect: a virtual machine": "socket(40, SOCK_STREAM, 0) >= 0",
    "connect: a Unix socket": 'reached_unix(socket(AF_UNIX, SOCK_STREAM, 0), "{unix}", 0)',
    "connect: an abstract socket": 'reached_unix(socket(AF_UNIX, SOCK_STREAM, 0), "{abstract_name}", 1)',
    "connect: a datagram through a pair": 'sent("{unix_datagram}")',
}
for _name, _row in _SYSCALLS.items():
    _arguments = re.sub(r"b'([^']*)'", r'"\1"', _row[2]).replace("0o", "0")
    REACH[f"system call: {_name}"] = f"made({_row[_MACHINE]}{', ' if _arguments else ''}{_arguments})"

HARMLESS = [
    "read a file", "list a directory", "read its own memory", "an unnamed file", "fork", "vfork", "system",
    "connect: TCP", "connect: UDP", "connect: a Unix socket", "connect: an abstract socket",
    "connect: a datagram through a pair", "signal the judge", "system call: memory in a file",
    "system call: dumpable again", "system call: pidfd_open",
]  # fmt: skip
"""These succeed where nothing confines a program."""

REACHING = """{headers}
{helpers}
int main() {{
    int number;
    if (scanf("%d", &number) != 1) return 1;
    bool reached = false;
    switch (number) {{
{cases}
    }}
    if (reached) printf("reached %d\\n", number);
}}
"""


def reaching(facts):
    """One program with all of `REACH`: it prints `reached N` if the one that its input names succeeds."""
    bodies = enumerate(body.format(**facts) for body in REACH.values())
    cases = "\n".join(f"    case {number}: reached = {body}; break;" for number, body in bodies)
    return REACHING.format(headers=HEADERS, helpers=HELPERS.format(**facts), cases=cases)


_SEARCH = """
static void show(const char *text, size_t size) {{
    for (size_t i = 0; i + {length} <= size; i++)
        if (!memcmp(text + i, "TOK" "EN-", 6)) {{ printf("%.{length}s\\n", text + i); exit(0); }}
}}
static char buffer[1 << 20];
static void show_file(int file) {{
    for (off_t at = 0;; ) {{
        ssize_t size = pread(file, buffer, sizeof buffer, at);
        if (size <= 0) break;
        show(buffer, size);
        at += size;
    }}
}}
"""
STEAL = {
    "the file": 'void look() {{ show_file(open("{secret}", O_RDONLY)); }}',
    "descriptors": "void look() {{ for (int file = 0; file < 256; file++) show_file(file); }}",
    "descriptors by name": """
void look() {{
    char path[64];
    for (int file = 0; file < 256; file++) {{
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        show_file(open(path, O_RDONLY));
        snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), file);
        show_file(open(path, O_RDONLY));
    }}
}}""",
    "arguments and environment": """
void look() {{
    for (char **text = environ; *text; text++) show(*text, strlen(*text));
    show_file(open("/proc/self/environ", O_RDONLY));
    char here;
    int ends[2];
    if (pipe(ends)) return;
    for (char *page = (char *)((size_t)&here & -4096UL); write(ends[1], page, 4096) == 4096; page += 4096)
        if (read(ends[0], buffer, 4096) == 4096) show(buffer, 4096);
}}""",
    "used memory": """
void look() {{
    for (size_t size = 16; size < 1 << 24; size *= 2)
        for (int i = 0; i < 8; i++) show((char *)malloc(size), size);
    show((char *)mmap(0, 1 << 24, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 24);
}}""",
    "all its mappings": """
void look() {{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long begin, end;
    char mode[8];
    while (maps && fscanf(maps, "%lx-%lx %7s%*[^\\n]", &begin, &end, mode) == 3)
        if (mode[0] == 'r' && begin < 1UL << 63) show((char *)begin, end - begin);
}}""",
    "the memory of the judge": 'void look() {{ show_file(open("/proc/{judge}/mem", O_RDONLY)); }}',
    "the compiler's directory": """
void look() {{
    for (const char *path : {{".", "/ratchet-scratch", "/tmp"}})
        if (DIR *directory = opendir(path))
            while (dirent *entry = readdir(directory))
                show_file(openat(dirfd(directory), entry->d_name, O_RDONLY));
}}""",
    "what a shell reads": """
void look() {{
    if (FILE *shell = popen("cat {secret}", "r")) show(buffer, fread(buffer, 1, sizeof buffer, shell));
}}""",
    "a socket to ask": """
void look() {{
    for (int file = 3; file < 256; file++) {{
        if (send(file, "{{}}", 2, MSG_DONTWAIT) == 2) show(buffer, recv(file, buffer, sizeof buffer, MSG_DONTWAIT));
    }}
}}""",
}


def stealing(look, facts):
    filled = {name: text.format(**facts) for name, text in (("search", _SEARCH), ("look", look))}
    return f'{HEADERS}{filled["search"]}{filled["look"]}\nint main() {{ look(); puts("nothing"); }}'


FORGE = {
    # Its own word about itself.
    "exit early": "int main() { _exit(0); }",
    "both answers": 'int main() { puts("11702\\n2"); }',
    "all answers": 'int main() { for (int i = 0; i < 20000; i++) printf("%d\\n", i); }',
    "a report": 'int main() { puts("{\\"status\\": \\"done\\", \\"output\\": \\"11702\\"}"); write(2, "stopped", 7); }',
    "reports everywhere": (
        'int main() { for (int i = 0; i < 1024; i++) { write(i, "{\\"status\\": \\"done\\"}\\n", 19); '
        "lseek(i, 0, SEEK_SET); } }"
    ),
    "a failure of the machine": 'int main() { for (int i = 3; i < 256; i++) write(i, "no", 2); _exit(71); }',
    "output for a later test": 'int main() { write(1, "\\0\\0\\0\\0", 4); ftruncate(0, 0); write(0, "1\\n", 2); }',
    "an output that grows": "int main() { ftruncate(1, 1 << 20); }",
    "an output that is gone": 'int main() { puts("1"); fflush(stdout); ftruncate(1, 0); close(1); }',
    "an output that is mapped": (
        "int main() { ftruncate(1, 4096); char *p = (char *)mmap(0, 4096, 3, MAP_SHARED, 1, 0); "
        "if (p != MAP_FAILED) p[0] = 'x'; }"
    ),
    "before main": '__attribute__((constructor)) void f() { puts("2"); fflush(stdout); _exit(0); }\nint main() {}',
    "after main": 'void f() { puts("2"); }\nint main() { atexit(f); }',
    "another start": 'extern "C" void _start(); int main() { _start(); }',
    "a handler for the end": (
        'void f(int) { puts("2"); _exit(0); }\nint main() { for (int i = 1; i < 65; i++) signal(i, f); for (;;); }'
    ),
    "threads that stay": (
        "void *f(void *) { for (;;) pause(); }\nint main() { pthread_t t; pthread_create(&t, 0, f, 0); "
        "pthread_exit(0); }"
    ),
    "an alarm that stays": "int main() { alarm(1); itimerval v = {{1, 0}, {1, 0}}; setitimer(ITIMER_PROF, &v, 0); }",
    # Memory of the test before.
    "a file": (
        'int main() { READ int f = open("/tmp/ratchet-attack", O_RDWR | O_CREAT, 0600), y = 1; read(f, &y, 4); '
        'write(f, &x, 4); printf("%d", y == x ? 2 * x : y); }'
    ),
    "its input as a memory": (
        'int main() { READ lseek(0, 4096, 0); int y = 0; read(0, &y, 4); write(0, &x, 4); printf("%d", y); }'
    ),
    "static data": 'static int n; int main() { READ printf("%d", n++ ? 2 * x : 0); }',
    # Too much of something.
    "fork bomb": "int main() { for (;;) fork(); }",
    "threads": "void *f(void *) { for (;;); }\nint main() { for (;;) { pthread_t t; pthread_create(&t, 0, f, 0); } }",
    "sleeping threads": (
        "void *f(void *) { for (;;) pause(); }\nint main() { for (int i = 0; i < 5000; i++) { pthread_t t; "
        "pthread_create(&t, 0, f, 0); } for (;;); }"
    ),
    "memory": "int main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    "mmap": ("int main() { for (;;) memset(mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 1 << 20); }"),
    "shared memory": (
        "int main() { for (;;) memset(mmap(0, 1 << 20, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, 1 << 20); }"
    ),
    "brk": "int main() { for (;;) { char *p = (char *)sbrk(1 << 20); memset(p, 1, 1 << 20); } }",
    "populated memory": (
        "int main() { for (;;) mmap(0, 8 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0); }"
    ),
    "reserved memory": (
        "int main() { for (;;) mmap(0, 1 << 30, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }"
    ),
    "memory under an address limit": "char a[1800000000]; int main() { memset(a, 1, sizeof a); puts(a); }",
    "pages of a stack": (
        "int f(int n) { volatile char a[4096]; a[0] = n; return f(n + 1) + a[0]; }\nint main() { f(0); }"
    ),
    "output": 'int main() { for (;;) puts("11702"); }',
    "output without lines": "int main() { static char a[1 << 20]; for (;;) write(1, a, sizeof a); }",
    "errors": 'int main() { for (;;) write(2, "x", 1); }',
    "input that grows": "int main() { static char a[1 << 20]; lseek(0, 0, SEEK_END); for (;;) write(0, a, sizeof a); }",
    "descriptors": "int main() { int e[2]; while (!pipe(e)); static char a[1 << 16]; for (int i = 0; i < 256; i++) "
    "{ fcntl(i, F_SETFL, O_NONBLOCK); write(i, a, sizeof a); } for (;;); }",
    "sleep": "int main() { for (;;) sleep(1000); }",
    "pause": "int main() { sigset_t s; sigfillset(&s); sigprocmask(SIG_BLOCK, &s, 0); for (;;) pause(); }",
    "a futex": "int main() { int w = 0; syscall(SYS_futex, &w, 0, 0, 0, 0, 0); }",
    "a busy loop": "int main() { for (volatile long i = 0;; i++); }",
    "yielding": "int main() { for (;;) sched_yield(); }",
    "a read that waits": "int main() { int e[2]; char c; pipe(e); read(e[0], &c, 1); }",
    "exceptions": "int main() { for (;;) try { throw 1; } catch (int) {} }",
    # Undefined, and meant to be.
    "a null pointer": "int main() { *(volatile int *)0 = 1; }",
    "a wild pointer": "int main() { *(volatile int *)0xffffffff80000000 = 1; }",
    "division by zero": "int main() { volatile int x = 0; return 1 / x; }",
    "a broken stack": "int main() { volatile char a[1]; for (long i = 0; i < 1 << 24; i++) a[i] = 0x41; }",
    "a jump into nothing": "int main() { ((void (*)())0x4141414141)(); }",
    "code on the heap": (
        "int main() { char *p = (char *)mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); "
        'memcpy(p, "\\x0f\\x05\\xc3", 3); ((void (*)())p)(); for (;;); }'
    ),
    "freed twice": "int main() { void *p = malloc(9); free(p); free(p); }",
    "an unknown instruction": 'int main() { asm("ud2"); }',
    "a halt": 'int main() { asm("hlt"); }',
    "ports": 'int main() { asm("cli"); }',
    "abort": "int main() { abort(); }",
    "no return": "int f() {} int main() { f(); }",
    "an overflow": 'int main() { int x; scanf("%d", &x); for (int i = 1; i > 0; i++) x += i; printf("%d", x); }',
}
X86 = {
    "a 32-bit call": 'int main() { int r; asm volatile("int $0x80" : "=a"(r) : "a"(2)); if (r >= 0) puts("11702"); }',
    "a 32-bit program": (
        'int main() { asm volatile("push $0x23; lea 1f(%rip), %rax; push %rax; lretq; 1: .code32; mov $2, %eax; '
        'int $0x80; .code64"); }'
    ),
    "the old page of calls": (
        "int main() { ((long (*)(long *))0xffffffffff600400)(0); "
        "((long (*)(long *, void *))0xffffffffff600000)(0, 0); for (;;); }"
    ),
    "segments": 'int main() { asm volatile("wrfsbase %0" :: "r"(0L)); puts("x"); }',
    "a trap flag": 'int main() { asm volatile("pushf; orl $0x100, (%rsp); popf"); for (;;); }',
}
