r"""Answers written to hang, to exhaust memory or to break the reader, against references of several shapes.

    python -m tests.verifiers.math_attacks

prints a line of JSON for each decision, and what all took together.
"""

import json
import os
import resource
from pathlib import Path

from ratchet.verifiers.math.equivalence import verify_math
from tests.verifiers.sandbox_world import descendants
from tests.work import within

SYMBOLS = "abcdefghijklmnopqrstuvwxyz"
DETERMINANT = " \\\\ ".join(" & ".join(f"{SYMBOLS[row]}_{column}" for column in range(9)) for row in range(9))
ATTACKS = {
    "a tower": "9^{9^{9^{9}}}",
    "a tower in brackets": "(((10^{10})^{10})^{10})^{10^{10}}",
    "a negative tower": "2^{-2^{2^{2^{2}}}}",
    "a power of powers": "(10^{4096})^{4096}",
    "a huge factorial": "(10^{10})!",
    "a large factorial": "1000000!",
    "factorials of factorials": "(((9!)!)!)!",
    "a factorial in a sum": "(9999+9999)!",
    "a huge binomial": "\\binom{1000000000}{500000000}",
    "a binomial of powers": "\\binom{10^{9}}{10^{8}}",
    "a binomial of factorials": "\\binom{999!}{500!}",
    "400 brackets": "(" * 400 + "5" + ")" * 400,
    "400 braces": "{" * 400 + "6" + "}" * 400,
    "400 roots": "\\sqrt{" * 400 + "5" + "}" * 400,
    "20 roots": "\\sqrt{2+" * 20 + "5" + "}" * 20,
    "25 fractions": "\\frac{1}{1+" * 25 + "x" + "}" * 25,
    "nested sets": "\\{" * 200 + "1" + "\\}" * 200,
    "nested tuples": "(1," * 100 + "2" + ")" * 100,
    "branching tuples": "((((((1,2),(1,2)),((1,2),(1,2))),(((1,2),(1,2)),((1,2),(1,2)))),(1,2)),(1,2))",
    "an exponential tower": "e^{e^{e^{e^{9}}}}",
    "a tiny exponential": "5+e^{-e^{20}}",
    "cosines of roots": "\\cos(" * 12 + "\\sqrt{2}" + ")" * 12,
    "many functions": "+".join(f"\\sin({k}x)\\cos(x^{{{k}}})\\ln(x+{k})" for k in range(1, 40)),
    "60 members with functions": ",".join(f"\\sin({k}x)^{{99}}" for k in range(60)),
    "words without end": "one hundred " * 300,
    "nested text": "\\text{" * 200 + "5" + "}" * 200,
    "equal equations": "x=" * 7 + "\\sin(x)^{512}",
    "plus or minus": "\\pm 1" * 60,
    "powers of a root": "(\\sqrt{2}+\\sqrt{3}+\\sqrt{5})^{512}-(\\sqrt{5}+\\sqrt{3}+\\sqrt{2})^{512}+5",
    "a symbolic determinant": f"\\begin{{vmatrix}} {DETERMINANT} \\end{{vmatrix}}",
    "a huge sum": "\\sum_{k=1}^{1000000000} \\frac{1}{k}",
    "a huge product": "\\prod_{k=1}^{100000}(x+k)",
    "an expansion": "(a+b+c+d+f+g)^{400}",
    "many expansions": "+".join(f"(x+y+z+{k})^{{99}}" for k in range(20)),
    "a hard integral": "\\int_0^1 x^{x^{x}} dx",
    "a gcd": "\\gcd(10^{1000000}, 6)",
    "a remainder": "7^{7^{7^{7}}} \\bmod 10",
    "digits": "9" * 2000,
    "digits in an exponent": "2^{" + "9" * 1500 + "}",
    "a megabyte": "1+" * 500_000 + "1",
    "a megabyte of braces": "{" * 500_000 + "}" * 500_000,
    "a megabyte of commas": "1," * 500_000 + "1",
    "60 irrational members": ",".join(f"\\sqrt{{{k}}}+\\sqrt{{{k + 1}}}" for k in range(2, 62)),
    "trigonometry of nothing small": "\\sin(10^{4000})+\\tan(10^{3999})",
    "nested functions": "\\sin(" * 25 + "x" + ")" * 25,
    "logarithms": "\\log(" * 25 + "10^{4000}" + ")" * 25,
    "a near miss": "\\sqrt{1000000000000000000000000000000000000001}-\\sqrt{1000000000000000000000000000000000000000}",
    "a root of high index": "\\sqrt[1000000]{2}",
    "control characters": "5\x00\x01\x1b[31m",
    "lone surrogates": "\ud800\udfff",
    "right to left": "\u202e5\u202c",
    "full width": "\uff15\uff0b\uff11",
    "combining marks": "5" + "\u0301" * 500,
}
REFERENCES = [
    "5",
    "\\sqrt{2}+x",
    "\\begin{pmatrix} x & 1 \\\\ 2 & \\sqrt{3} \\end{pmatrix}",
    "1, \\sqrt{2}, \\sqrt{3}, x",
]


def main():
    for name, attack in ATTACKS.items():
        for reference in REFERENCES if len(attack) < 10_000 else REFERENCES[:1]:
            verdict = within(4_000_000, verify_math, f"\\boxed{{{attack}}}", reference)
            row = {"attack": name, "outcome": verdict.outcome.value, "tier": verdict.decided_by}
            print(json.dumps(row | {"detail": verdict.detail[:80]}))
    # Not RUSAGE_SELF, which starts at the size of the process that started this one.
    here = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    memory = {"memory_mib": max(here, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) >> 10}
    print(json.dumps(memory | {"left": len(descendants(os.getpid()))}))


if __name__ == "__main__":
    main()
