"""Guards of a check against values for which a comparison says nothing: NaN, and arrays without elements.

`if abs(x - 5) > 1e-6: raise` says no word about NaN, since every comparison with it is false. All elements of an empty
array are close to anything, since it has none. In plain Python a program passes such a check without an answer.
"""

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

NUMBER = "_ratchet_number"
"""The name of `Guard.number` in a check."""
_COMPARERS = (
    "assert_allclose", "assert_almost_equal", "assert_approx_equal", "assert_array_almost_equal", "assert_array_equal",
    "assert_array_less", "assert_equal",
)  # fmt: skip


class Guard:
    """Guards for one check. For values other than NaN nothing changes."""

    def __init__(self) -> None:
        self._empty: type | None = None

    def number(self, value: Any) -> Any:
        """Pass on an operand of `<`, `<=`, `>` or `>=`. Raises AssertionError for NaN."""
        if _is_nan(value):
            raise AssertionError("it compares NaN")
        return value

    def names(self) -> dict[str, Any]:
        """Guarded versions of the built-in functions that compare, by name."""
        return {function.__name__: self._guarded(function) for function in (max, min, sorted)}

    def _guarded(self, function: Any) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if "key" not in kwargs:
                args = ([*map(self.number, args[0])],) if len(args) == 1 else tuple(map(self.number, args))
            return function(*args, **kwargs)

        guarded.__name__ = guarded.__qualname__ = function.__name__
        return guarded

    def array(self, array: Any) -> Any:
        """An array of the program; one without elements says so where it is compared or reduced."""
        if array.size:
            return array
        self._empty = self._empty or _empty_class()
        return array.view(self._empty)


def _is_nan(value: Any) -> bool:
    if isinstance(value, float | complex | Decimal):
        return value != value
    np = sys.modules.get("numpy")
    pd = sys.modules.get("pandas")
    if pd is not None and isinstance(value, pd.Series | pd.DataFrame | pd.Index):
        return bool(np.asarray(pd.isna(value)).any())  # type: ignore[union-attr]
    if np is not None and isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fcO":
        return any(map(_is_nan, value.flat)) if value.dtype.kind == "O" else bool(np.isnan(value).any())
    return isinstance(value, list | tuple) and any(map(_is_nan, value))


def _is_empty(np: Any, value: Any) -> bool | None:
    """True for an array without elements; None for what is no array."""
    if isinstance(value, list | tuple | np.ndarray | np.generic | int | float | complex | dict | str):
        try:
            return np.size(value) == 0 or (isinstance(value, dict | str) and not value)
        except ValueError:  # a list of different lengths
            return False
    return None


def compare_shapes() -> None:
    """Make nothing but an empty array close or equal to an empty array, where numpy compares whole arrays; and keep the
    guard of one that is taken for an array."""
    import numpy as np  # only here: it is large

    def with_emptiness(function: Any, differ: Callable[[], Any]) -> Callable[..., Any]:
        def compared(one: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
            sizes = {_is_empty(np, one), _is_empty(np, other)}
            if sizes == {True}:
                one, other = (each.view(np.ndarray) if isinstance(each, np.ndarray) else each for each in (one, other))
            return differ() if sizes == {True, False} else function(one, other, *args, **kwargs)

        return compared

    def unequal() -> None:
        raise AssertionError("an empty array is compared with one that is not")

    def kept(function: Any) -> Callable[..., Any]:
        def made(value: Any, *args: Any, **kwargs: Any) -> Any:
            is_guarded = type(value).__name__ == "EmptyArray" and not args and not kwargs
            return value if is_guarded else function(value, *args, **kwargs)

        return made

    np.allclose = with_emptiness(np.allclose, lambda: False)
    np.isclose = with_emptiness(np.isclose, lambda: np.False_)
    for name in _COMPARERS:
        setattr(np.testing, name, with_emptiness(getattr(np.testing, name), unequal))
    np.array, np.asarray = kept(np.array), kept(np.asarray)


def _empty_class() -> type:
    import numpy as np

    size, array = np.size, np.ndarray

    class EmptyArray(array):  # type: ignore[misc, valid-type]
        """An array without elements that the program has returned."""

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            plain = [item.view(array) if isinstance(item, EmptyArray) else item for item in inputs]
            if method != "__call__" or any(size(item) for item in plain):
                raise ValueError("the program returned an empty array, of which nothing can be said")
            result = ufunc(*plain, **kwargs)
            return result.view(EmptyArray) if len(inputs) == 1 and isinstance(result, array) else result

    EmptyArray.__module__ = __name__
    EmptyArray.__qualname__ = "EmptyArray"
    return EmptyArray
