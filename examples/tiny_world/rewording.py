"""Ways to make a copy of a problem look different: typesetting, spacing, typing errors, other words at its ends."""

import re
from collections.abc import Callable, Sequence
from random import Random

_INTRODUCTIONS = ("Solve the following problem. ", "Problem {}. ", "Exercise {}: ", "Question {}. ", "Here is a task. ")
_TYPESETTINGS: tuple[Callable[[str], str], ...] = (
    lambda text: re.sub(r"\b(\d+)\b", r"$\1$", text),
    lambda text: re.sub(r"\b(\d+)\b", r"\\(\1\\)", text),
    lambda text: text.replace(". ", " .   ").replace(", ", " ,  ") + "  ",
    lambda text: text.replace(". ", ".\n").replace(": ", ":\n"),
    str.upper,
    str.lower,
)


def retypeset(rng: Random, text: str) -> str:
    """Numbers as mathematics, or other white space, case or quotation: the same words in the same order."""
    return rng.choice(_TYPESETTINGS)(text)


def introduce(rng: Random, text: str) -> str:
    """The problem after a heading."""
    return rng.choice(_INTRODUCTIONS).format(rng.randint(2, 40)) + text


def mistype(rng: Random, text: str) -> str:
    """Two different letters inside one word swapped; a text without a word of five letters is unchanged."""
    places = [
        at
        for word in re.finditer(r"[a-z]{5,}", text)
        for at in range(word.start() + 1, word.end() - 2)
        if text[at] != text[at + 1]
    ]
    if not places:
        return text
    at = rng.choice(places)
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def spelling(vocabulary: str) -> Callable[[str], str]:
    """A function that undoes `mistype` in a text made of the words of `vocabulary`."""
    spellings = {_letters(word): word for word in re.findall(r"[a-z]{5,}", vocabulary.lower())}

    def correct(text: str) -> str:
        return re.sub(r"[a-z]{5,}", lambda word: spellings.get(_letters(word.group()), word.group()), text)

    return correct


def _letters(word: str) -> tuple[str, ...]:
    """The letters of a word, inner ones in alphabetical order, which `mistype` does not change."""
    return (word[0], *sorted(word[1:-1]), word[-1])


def exchange_ending(rng: Random, text: str, endings: Sequence[str]) -> str:
    """The text with another of the `endings` in place of its own, if it has one of them."""
    for ending in sorted(endings, key=len, reverse=True):
        if text.endswith(ending):
            return text[: -len(ending)] + rng.choice([other for other in endings if other != ending])
    return text


def exchange_opening(rng: Random, text: str, openings: Sequence[str]) -> str:
    """The text with another of the `openings` (`{}` is a number that is kept), if it starts with one of them."""
    for opening in openings:
        match = re.match(re.escape(opening).replace(r"\{\}", r"(\d+)"), text)
        if match:
            other = rng.choice([another for another in openings if another != opening])
            return other.format(*match.groups()) + text[match.end() :]
    return text
