"""The algebra worker: reads pairs of LaTeX expressions on standard input, answers true or false on standard output."""

from __future__ import annotations

import json
import logging
import resource
import sys
from typing import Any

from verifiers.symbolic import CPU_LIMIT_S, MEMORY_BYTES

_PROBE_DIGITS = 40


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable(logging.CRITICAL)
    import math_verify  # noqa: F401  (slow to import: before we say that we are ready)

    print("ready", flush=True)
    for line in sys.stdin:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(usage.ru_utime + usage.ru_stime + CPU_LIMIT_S) + 3
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        print(json.dumps(_equal(*json.loads(line))), flush=True)


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


def _parse(text: str) -> Any:
    from math_verify import LatexExtractionConfig, parse
    from sympy import Float, Rational

    if any(name in text for name in ("\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc")):
        text = text.replace("^\\circ", "\\cdot\\frac{\\pi}{180}")
    parsed = parse(f"${text}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    if not parsed:
        return None
    expression = parsed[0]
    # Exact decimals: as floats, 10^-7 would be 0 and x + 1.0000000001 would be x + 1.
    if hasattr(expression, "xreplace") and hasattr(expression, "atoms"):
        expression = expression.xreplace({number: Rational(str(number)) for number in expression.atoms(Float)})
    return expression


def _same(wanted: Any, got: Any) -> bool:
    from math_verify import verify
    from sympy import Basic, Eq, Expr

    if isinstance(wanted, Eq) and isinstance(got, Eq):
        one, other = wanted.lhs - wanted.rhs, got.lhs - got.rhs
        ratio = (one / other).simplify()
        return bool(ratio.is_number and ratio.is_finite and ratio != 0)
    if isinstance(wanted, Expr) and isinstance(got, Expr):
        if wanted.free_symbols != got.free_symbols and not _differ_without_symbols(wanted, got):
            return False
        difference = wanted - got
        if _clearly_nonzero(difference):
            return False
        return bool(difference.equals(0))
    if isinstance(wanted, Basic) and isinstance(got, Basic):
        return bool(verify(wanted, got, timeout_seconds=None, allow_set_relation_comp=True))
    return False


def _differ_without_symbols(wanted: Any, got: Any) -> bool:
    """A symbol that cancels, as in x - x + 1, is allowed; one that stays is a difference."""
    return wanted.simplify().free_symbols == got.simplify().free_symbols


def _clearly_nonzero(difference: Any) -> bool:
    """Evaluate at rational points, far from special values, to 40 digits: proof of a difference, never of equality."""
    from sympy import Rational

    symbols = sorted(difference.free_symbols, key=str)
    for shift in (0, 1):
        point = {symbol: Rational(1009 + 210 * index + 37 * shift, 601) for index, symbol in enumerate(symbols)}
        try:
            value = complex(difference.subs(point).evalf(_PROBE_DIGITS))
        except (TypeError, ValueError, OverflowError):
            return False
        if abs(value) > 1e-25:
            return True
    return False


if __name__ == "__main__":
    main()
