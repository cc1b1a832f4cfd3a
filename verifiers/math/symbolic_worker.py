"""The algebra worker: reads pairs of LaTeX expressions on standard input, answers true or false on standard output.

The process that is started loads the algebra and forks the worker; when one has ended before its input, it says so and
forks another.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import os
import re
import resource
import sys
from typing import Any

from ratchet.verifiers.math.symbolic import CPU_LIMIT_S, MEMORY_BYTES

_PROBE_DIGITS = 40
_DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)")
_CAPITAL = re.compile(r"(?<!\\)(?<![A-Za-z])[A-Z](?![A-Za-z_])")


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable(logging.CRITICAL)
    import math_verify  # noqa: F401  (slow to import: before we say that we are ready)

    _equal("\\log_2 3", "\\log_3 2")  # loads what is loaded on first use
    gc.freeze()
    while (worker := os.fork()) != 0:
        status = os.waitpid(worker, 0)[1]
        if status == 0:
            return
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(usage.ru_utime + usage.ru_stime + CPU_LIMIT_S) + 3
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        print(json.dumps(_equal(*json.loads(line))), flush=True)
    os._exit(0)


def _equal(reference: str, answer: str) -> bool:
    try:
        wanted, got = _parse(reference), _parse(answer)
        if wanted is None or got is None:
            return False
        return _same(wanted, got)
    except (MemoryError, RecursionError):
        raise
    except Exception:  # sympy raises anything on what it does not understand; not understood is not equal
        return False


@functools.lru_cache(maxsize=4096)  # a reference meets every response of its group
def _parse(text: str) -> Any:
    from math_verify import LatexExtractionConfig, parse
    from sympy import I, Symbol

    if any(name in text for name in ("\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc")):
        text = text.replace("^\\circ", "\\cdot\\frac{\\pi}{180}")
    # Exact decimals: as floats, x + 1.0000000001 would be x + 1.
    text = _DECIMAL.sub(lambda match: f"\\frac{{{int((match[1] or '0') + match[2])}}}{{{10 ** len(match[2])}}}", text)
    # The parser folds case, but R and r are two radii.
    text = _CAPITAL.sub(lambda match: f"{match[0].lower()}_{{9}}", text)
    parsed = parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)  # type: ignore[arg-type]
    if not parsed:
        return None
    expression = parsed[0]
    if hasattr(expression, "xreplace"):
        expression = expression.xreplace({Symbol("i", real=True): I, Symbol("i", real=False): I})
    return expression


def _sides(equation: Any) -> tuple[Any, Any]:
    return equation.lhs, equation.rhs


def _same(wanted: Any, got: Any) -> bool:
    from math_verify import verify
    from sympy import Basic, Eq, Expr

    if isinstance(wanted, Eq) and isinstance(got, Eq):
        (left, right), (got_left, got_right) = map(_sides, (wanted, got))
        one, other = left - right, got_left - got_right
        ratio = (one / other).simplify()
        return bool(ratio.is_number and ratio.is_finite and ratio != 0)
    if isinstance(wanted, Expr) and isinstance(got, Expr):
        if _clearly_differ(wanted, got):
            return False
        difference = (wanted - got).doit()
        return _expanded(difference) == 0 or bool(difference.equals(0))
    if isinstance(wanted, Basic) and isinstance(got, Basic):
        return bool(verify(wanted, got, timeout_seconds=None, allow_set_relation_comp=True))
    return False


def _expanded(difference: Any) -> Any:
    """With multiples of angles, logarithms of products and squares of sines written out: most identities end here, long
    before everything has been tried."""
    from sympy import Pow, cos, expand_log, sin

    written = expand_log(difference.expand(trig=True), factor=True)
    powers = [p for p in written.atoms(Pow) if isinstance(p.base, sin) and p.exp.is_Integer and p.exp > 1]
    squares = {p: (1 - cos(p.base.args[0]) ** 2) ** (p.exp // 2) * p.base ** (p.exp % 2) for p in powers}
    return written.xreplace(squares).expand()


def _clearly_differ(wanted: Any, got: Any) -> bool:
    """Evaluate at two rational points, away from special values, to 40 digits: a proof that two expressions differ
    (relative 1e-25), never that they agree. Decides nearly all wrong answers without simplifying anything."""
    from sympy import Rational

    symbols = sorted(wanted.free_symbols | got.free_symbols, key=str)
    for shift in (0, 1):
        point = {symbol: Rational(1009 + 210 * index + 37 * shift, 601) for index, symbol in enumerate(symbols)}
        sizes = [abs(side.evalf(_PROBE_DIGITS, subs=point)).evalf() for side in (wanted, got, wanted - got)]
        if not all(size.is_Float or size.is_Integer for size in sizes):
            return False
        if bool(sizes[2] > 1e-25 * max(1, sizes[0], sizes[1])):
            return True
    return False


if __name__ == "__main__":
    main()
