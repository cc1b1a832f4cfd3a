"""Programs in C++ that attack their compiler, some with an answer that they could only have from a file. Fields in
braces are filled in by the test."""

_INCBIN = '\nextern "C" char token[];\nint main() {{ fwrite(token, 1, {length}, stdout); }}'
_TEXT = '\n#include <cstdio>\nint main() {{ puts("nothing"); }}'
COMPILE = {
    "include a file": '#include "{secret}"' + _TEXT,
    "include by a path from here": '#include "../../../../../../../..{secret}"' + _TEXT,
    "a file as an array": 'const char t[] = {{\n#include "{secret}"\n}};' + _TEXT,
    "a file as a macro": "#define TOKEN const char *t =\n#include <{secret}>\n" + _TEXT,
    "the file with users": "#include </etc/passwd>" + _TEXT,
    "the memory of the judge": "#include </proc/{judge}/mem>" + _TEXT,
    "the environment": "#include </proc/self/environ>" + _TEXT,
    "a program's own job": "#include </proc/self/fd/0>" + _TEXT,
    "random numbers": "#include </dev/random>" + _TEXT,
    "zeros": "#include </dev/zero>" + _TEXT,
    "standard input": "#include </dev/stdin>" + _TEXT,
    "a terminal": "#include </dev/tty>" + _TEXT,
    "itself": "#include __FILE__" + _TEXT,
    "itself, 2^200 times": "#if __INCLUDE_LEVEL__ < 199\n#include __FILE__\n#include __FILE__\n#endif" + _TEXT,
    "bytes of a file": (
        '#include <cstdio>\nasm(".data\\n.global token\\ntoken: .incbin \\"{secret}\\"\\n.text");' + _INCBIN
    ),
    "bytes of a directory": '#include <cstdio>\nasm("token: .incbin \\"/\\"");' + _TEXT,
    "bytes without end": 'asm(".incbin \\"/dev/zero\\"");' + _TEXT,
    "an assembler's include": 'asm(".include \\"{secret}\\"");' + _TEXT,
    "an assembler's bytes": 'asm(".fill 2000000000, 8, 1");' + _TEXT,
    "an assembler's space": 'asm(".data\\n.space 100000000000");' + _TEXT,
    "an assembler's loop": 'asm(".rept 1000000000\\nnop\\n.endr");' + _TEXT,
    "an assembler's loop in a loop": 'asm(".macro m\\n m\\n m\\n.endm\\nm");' + _TEXT,
    "an assembler's message": 'asm(".rept 10000000\\n.print \\"x\\"\\n.endr");' + _TEXT,
    "a bad instruction": 'asm("steal %rax");' + _TEXT,
    "a linker's script": 'asm(".section .note\\n.ascii \\"INPUT({secret})\\"");' + _TEXT,
    "a library": '#pragma comment(lib, "{secret}")' + _TEXT,
    "a plugin": '#pragma GCC optimize("-fplugin={secret}")' + _TEXT,
    "a dump": '#pragma GCC optimize("-fdump-tree-all={target}")' + _TEXT,
    "a dump of a function": '__attribute__((optimize("fdump-rtl-all"))) int f() {{ return 1; }}' + _TEXT,
    "a profile": '#pragma GCC optimize("profile-generate={target}")' + _TEXT,
    "a dependency": '#pragma GCC dependency "{secret}"' + _TEXT,
    "a precompiled header": '#pragma GCC pch_preprocess "{secret}"' + _TEXT,
    "a module": "import <{secret}>;" + _TEXT,
    "templates without end": "template <int N> struct A {{ typename A<N + 1>::t t; }};\nA<0> a;" + _TEXT,
    "2^30 templates": (
        "template <int N, int M> struct A {{ A<N - 1, 2 * M> a; A<N - 1, 2 * M + 1> b; }};\n"
        "template <int M> struct A<0, M> {{ char x; }};\nA<30, 0> a;" + _TEXT
    ),
    "a constant that is computed": (
        "constexpr int f(int n) {{ int s = 0; for (int i = 0; i < n; i++) s += i ^ s; return s; }}\n"
        "constexpr int a = f(30000000), b = f(30000001);" + _TEXT
    ),
    "recursive constants": "constexpr int f(int n) {{ return f(n + 1); }}\nconstexpr int a = f(0);" + _TEXT,
    "a macro of macros": (
        "#define A(x) x, x, x, x, x, x, x, x, x, x\n#define B(x) A(A(A(A(A(x)))))\nint a[] = {{ B(B(1)) }};" + _TEXT
    ),
    "data": "char a[1L << 36] = {{1}};" + _TEXT,
    "large data": "long a[100000000] = {{1}};" + _TEXT,
    "errors": "int main() {{" + " x{{}};" * 100_000 + "}}",
    "parentheses": "int x = " + "(" * 200_000 + "1" + ")" * 200_000 + ";" + _TEXT,
    "braces": "int main() " + "{{" * 100_000 + "}}" * 100_000,
    "a long name": "int " + "x" * 3_000_000 + ";" + _TEXT,
    "a long line of operators": "int x = 1" + "+1" * 300_000 + ";" + _TEXT,
    "bytes that are no text": "\x01\x02\udcff\x00" * 1000 + _TEXT,
    "an early resolver": (
        '#include <cstdlib>\nstatic void g() {{}}\nextern "C" void (*r())() {{ _Exit(0); return g; }}\n'
        'void f() __attribute__((ifunc("r")));\nint main() {{ f(); }}'
    ),
    "a start of its own": 'extern "C" void _start() {{ for (;;); }}' + _TEXT,
    "another C library": 'extern "C" int puts(const char *) {{ for (;;); }}' + _TEXT.replace("#include <cstdio>", ""),
}
