"""Match the members of two lists: in any order, by their labels, in groups."""

from collections.abc import Callable
from dataclasses import replace

from ratchet.verifiers.math.answer import Answer

GROUP = "group"
"""Value of `brackets` for values that belong together: `13 and 15` in `13 and 15, or -15 and -13`."""


def ungrouped(one: Answer, other: Answer) -> Answer:
    """The list with its groups as tuples, or with their values apart if the other list has no groups."""
    if not any(part.brackets == GROUP for part in one.parts) or any(part.brackets == GROUP for part in other.parts):
        return one
    if all(part.kind == "tuple" for part in other.parts):
        return replace(one, parts=tuple(replace(part, kind="tuple", brackets="()") for part in one.parts))
    return replace(one, parts=tuple(value for part in one.parts for value in part.parts))


def is_ranking(members: tuple[Answer, ...]) -> bool:
    """True for letters that are not in alphabetical order: C, A, D, B."""
    letters = [member.words if member.kind == "option" else member.text for member in members]
    return (
        len(letters) > 2 and all(len(each) == 1 and each.isupper() for each in letters) and letters != sorted(letters)
    )


def labels_of(members: tuple[Answer, ...]) -> list[str]:
    """The sorted labels of a list's members: each one's name, or its unit or noun. Both members of x = 1, 2 are x."""
    labels = [""]
    for member in members:
        if member.kind == "equation" and not member.words:
            labels.append(member.parts[0].text)
        elif member.unit is not None:
            labels.append(repr(member.unit.words or member.unit.dimension))
        else:
            labels.append(member.variable or labels[-1])
    return sorted(labels[1:])


def paired(
    reference: tuple[Answer, ...], answer: tuple[Answer, ...], same: Callable[[Answer, Answer], bool | None]
) -> bool | None:
    """True if the members are the same, one to one, in some order."""
    edges = [[same(one, other) for other in answer] for one in reference]
    return _matched(edges, (True,)) or (None if _matched(edges, (True, None)) else False)


def _matched(edges: list[list[bool | None]], accepted: tuple[bool | None, ...]) -> bool:
    """True if there is a perfect matching, by augmenting paths (Kuhn 1955)."""
    owner: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, edge in enumerate(edges[row]):
            if edge in accepted and column not in seen:
                seen.add(column)
                if column not in owner or place(owner[column], seen):
                    owner[column] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(edges)))
