"""A kind of instruction: a reader for each of its arguments, and a test of a text.

Texts and arguments are data: neither becomes a pattern, and time grows with the length of the text alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ratchet.verifiers.instructions import arguments as argument

Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class Kind:
    """A kind of instruction: `follows(text, **arguments)`, and a reader for each argument."""

    follows: Callable[..., bool]
    arguments: Mapping[str, Reader] = field(default_factory=dict)
    optional: Mapping[str, Reader] = field(default_factory=dict)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Read the arguments without nulls. Raises ValueError for a missing, unknown or invalid one."""
        arguments = {name: value for name, value in arguments.items() if value is not None}
        readers = {**self.arguments, **self.optional}
        if unknown := sorted(arguments.keys() - readers):
            raise ValueError(f"it takes no {unknown[0]}")
        if missing := sorted(self.arguments.keys() - arguments):
            raise ValueError(f"it has no {missing[0]}")
        read = {}
        for name, value in arguments.items():
            try:
                read[name] = readers[name](value)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{name}: {error}") from None
        return read


def counted(counts: Callable[..., int], limit: str, compared: str = "", **arguments: Reader) -> Kind:
    """A kind that compares a count with a limit: at least the limit, or as the argument named by `compared` says."""

    def follows(response: str, **arguments: Any) -> bool:
        compare, least = argument.RELATIONS[arguments.pop(compared) if compared else "at least"], arguments.pop(limit)
        return compare(counts(response, **arguments), least)

    return Kind(follows, {**arguments, limit: argument.count} | ({compared: argument.relation} if compared else {}))
