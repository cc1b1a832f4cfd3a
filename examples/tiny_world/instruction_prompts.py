"""Requests for a few sentences with two or three of IFEval's instructions, which the teacher forgets one by one.

    Write about the sea. Do not use commas. Finish with the words "That is all."

The content of a response hardly matters, only its form. Each instruction has one phrase that asks for it, and a
response follows those that the teacher does not forget.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

Happens = Callable[[float], bool]
FORGOTTEN = 0.40
"""Probability of each instruction."""
MISCOUNTED = 0.25
"""Probability of a wrong number of sentences or bullets, where it is not forgotten."""

TOPICS = ("sea", "moon", "rain", "city", "forest", "river", "night", "snow")
KEYWORDS = ("bird", "stone", "light", "road", "tree", "boat", "song", "wind")
ENDINGS = ("That is all.", "This is the end.", "Nothing more to say.")
_QUALITIES = ("old", "big", "calm", "cold", "quiet", "near")
NUMBERS = ("one", "two", "three", "four")


@dataclass(frozen=True)
class Kind:
    """The phrase that asks for an instruction, `{}` replaced by one of `values`; its published id and its arguments."""

    asked: str
    id: str
    arguments: Callable[[str], dict[str, Any]] = lambda value: {}
    values: tuple[str, ...] = ("",)


def _number(value: str) -> int:
    return NUMBERS.index(value) + 1


KINDS = {
    "sentences": Kind(
        "Write exactly {} sentences.", "length_constraints:number_sentences",
        lambda value: {"num_sentences": _number(value), "relation": "exactly"}, NUMBERS[1:],
    ),
    "bullets": Kind(
        "Write {} lines that begin with a star.", "detectable_format:number_bullet_lists",
        lambda value: {"num_bullets": _number(value)}, NUMBERS[1:],
    ),
    "no_comma": Kind("Do not use commas.", "punctuation:no_comma"),
    "lowercase": Kind("Use small letters only.", "change_case:english_lowercase"),
    "keyword": Kind(
        "Use the word {}.", "keywords:existence", lambda value: {"keywords": [value]}, KEYWORDS
    ),
    "forbidden": Kind(
        "Never say {}.", "keywords:forbidden_words", lambda value: {"forbidden_words": [value]}, _QUALITIES[:3]
    ),
    "ending": Kind(
        'Finish with the words "{}"', "startend:end_checker", lambda value: {"end_phrase": value}, ENDINGS
    ),
    "repeat": Kind("Repeat this request first.", "combination:repeat_prompt"),
    "quotation": Kind("Put it in double quotes.", "startend:quotation"),
    "title": Kind("Give it a title in <<angle brackets>>.", "detectable_format:title"),
}  # fmt: skip
_APART = [
    {"sentences", "bullets"}, {"sentences", "repeat"}, {"quotation", "repeat"}, {"title", "repeat"},
    {"bullets", "repeat"}, {"quotation", "bullets"}, {"ending", "bullets"},
]  # fmt: skip
"""Pairs of instructions that one short response cannot easily follow together."""
COMBINATIONS = tuple(
    names for size in (2, 3) for names in combinations(KINDS, size) if not any(pair <= set(names) for pair in _APART)
)


@dataclass(frozen=True)
class Prompt:
    topic: str
    asked: tuple[tuple[str, str], ...]
    """Names of kinds, each with its value."""

    @property
    def request(self) -> str:
        return f"Write about the {self.topic}."

    @property
    def text(self) -> str:
        return " ".join([self.request, *(KINDS[name].asked.format(value) for name, value in self.asked)])

    def row(self) -> dict[str, Any]:
        """As IFEval publishes its prompts."""
        arguments = [KINDS[name].arguments(value) for name, value in self.asked]
        if "repeat" in (names := [name for name, _ in self.asked]):
            arguments[names.index("repeat")] = {"prompt_to_repeat": self.request}
        return {"prompt": self.text, "instruction_id_list": [KINDS[name].id for name in names], "kwargs": arguments}

    def response(self, rng: Random, happens: Happens) -> str:
        """A response that follows the instructions that are not forgotten."""
        kept = {name: value for name, value in self.asked if not happens(FORGOTTEN)}
        count = rng.randint(1, 2)
        for name in ("sentences", "bullets"):
            if name in kept:
                count = _number(kept[name]) + (rng.choice((-1, 1)) if happens(MISCOUNTED) else 0)
        if "ending" in kept and "sentences" in kept:
            count -= 1
        qualities = [word for word in _QUALITIES if word != kept.get("forbidden")]
        lines = [self._sentence(rng, qualities, "no_comma" in kept) for _ in range(count)]
        if "keyword" in kept and lines:
            lines[0] = f"The {self.topic} has a {kept['keyword']}."
        if "ending" in kept:
            lines.append(kept["ending"])
        text = "\n".join(f"* {line}" for line in lines) if "bullets" in kept else " ".join(lines)
        if "repeat" in kept:
            text = f"{self.request} {text}"
        if "title" in kept:
            text = f"<<The {self.topic}>>\n{text}"
        if "quotation" in kept:
            text = f'"{text}"'
        return text.lower() if "lowercase" in kept else text

    def _sentence(self, rng: Random, qualities: list[str], plain: bool) -> str:
        quality = rng.choice(qualities[:3] if rng.random() < 0.7 else qualities)
        return f"The {self.topic} is {quality}." if plain else f"The {self.topic}, it is {quality}."


def draw_prompt(rng: Random, held_out: bool = False) -> Prompt:
    """Two or three instructions, on the wanted side of the split, which depends on a hash of the text, on no seed."""
    while True:
        names = rng.sample(combination := rng.choice(COMBINATIONS), len(combination))
        prompt = Prompt(rng.choice(TOPICS), tuple((name, rng.choice(KINDS[name].values)) for name in names))
        if (hashlib.sha256(prompt.text.encode()).digest()[0] < 32) == held_out:
            return prompt


_REQUEST = re.compile(rf"Write about the ({'|'.join(TOPICS)})\. ")
_KIND = re.compile(
    "|".join(
        re.escape(kind.asked).replace(r"\{\}", f"(?P<{name}_value>{'|'.join(map(re.escape, kind.values))})")
        if kind.values != ("",)
        else f"(?P<{name}>{re.escape(kind.asked)})"
        for name, kind in KINDS.items()
    )
)


def parse(text: str) -> Prompt | None:
    """The request in a text, or None for a text that is not of this world."""
    if (opening := _REQUEST.match(text)) is None:
        return None
    asked = []
    for match in _KIND.finditer(text, opening.end()):
        name = str(match.lastgroup)
        asked.append((name.removesuffix("_value"), match[name] if name.endswith("_value") else ""))
    return Prompt(opening[1], tuple(asked)) if asked else None
