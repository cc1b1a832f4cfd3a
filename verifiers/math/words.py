"""Words in an answer: numbers, dates and times, and nouns that are not part of a value."""

import re
from fractions import Fraction

from ratchet.verifiers.math.tokens import Token, Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_NUMBERS = VOCABULARY["numbers"]
_SMALL = {text: value for value, text in enumerate(_NUMBERS["ones"].split())}
_SMALL |= {text: 10 * value for value, text in enumerate(_NUMBERS["tens"].split(), 2)}
_MAGNITUDES, _PARTS = _NUMBERS["magnitudes"], _NUMBERS["parts"]
_NUMERAL = _MAGNITUDES.keys() | _PARTS.keys()
_NUMERIC = frozenset(_NUMERAL | _SMALL.keys() | {"minus", "negative", "plus", "root"})
_MONTHS = {name: index % 12 + 1 for index, name in enumerate(VOCABULARY["months"].split())}
_WEEKDAYS, _NO_NOUNS, _MODIFIERS = (
    frozenset(VOCABULARY[section].split()) for section in ("weekdays", "no_nouns", "modifiers")
)
_LONGEST_NUMBER = 10_000
"""Bits of a number that is written out; Python refuses to write longer ones."""
_HALVES = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "pm"}
_IN_ORDER = (("respectively",), ("in", "this", "order"), ("in", "that", "order"))
VOWELS = frozenset("aeiouy")
_SHORT_WORDS = frozenset(VOCABULARY["short_words"].split())
_SPELLINGS = tuple(VOCABULARY["spellings"].items())
_MEASURES = frozenset(VOCABULARY["measure_words"].split())
_IRREGULAR = tuple(VOCABULARY["irregular_nouns"].split())
_ORDINALS = {name: rank for rank, name in enumerate(VOCABULARY["ordinals"].split(), 1)}
_ROMAN = {name: rank for rank, name in enumerate(["i", "ii", "iii", "iv", "v", "vi"], 1)}
_RANKED = frozenset(VOCABULARY["ranked"].split())
_COMPASS = frozenset(["north", "south", "east", "west"])
_CORNERS = {"NE": "northeast", "NW": "northwest", "SE": "southeast", "SW": "southwest"}
NEXT = frozenset(
    ["after", "next", "following", "follows", "previous", "preceding", "precedes", "eve", "yesterday", "tomorrow"]
)
_DAYS = {name[:length]: name for name in _WEEKDAYS for length in (3, 4)}
_SPOKEN_TIME = re.compile(
    r"(?:an? )?(?:(?P<minutes>\d+)(?: minutes?)?|(?P<quarter>1/4|quarter)|(?P<half>1/2|half)) "
    r"(?P<side>past|after|to|before) (?P<hour>\d+|noon|midnight)\b(?! *[:.]\d)"
)
_DOTTED_TIME = re.compile(r"\b(\d{1,2}) ?(?:\. ?(?=[0-5]\d ?[ap]\.? ?m)|h ?(?=[0-5]\d\b))([0-5]\d)")
_ISO_DATE = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-([0-3]\d)\b")
_NEXT_DAY = re.compile(r",? (?:on |of )?the (?:next|following|same) (?:day|morning)\b")
_WHEN = re.compile(
    r"(?P<hour>\d{1,2})\s*:\s*(?P<minute>[0-5]\d)(?!\d)|(?P<half>[ap])\s?\.?\s?m\b\s?\.?|(?P<number>\d+)(?:st|nd|rd|th)?\b"
    r"|(?P<word>[a-z]+)|[\s,.']+"
)


def word(token: Token) -> str:
    """The token's word in lower case; "" if it is not one."""
    return token.text.lower() if token.kind in ("word", "run") else ""


def spoken(tokens: Tokens) -> list[str]:
    """The word of each token, with "not" for the end of a contraction: doesn't, can't, won't."""
    said = [word(token) for token in tokens]
    for i in range(2, len(tokens)):
        if tokens[i - 1].isa("'") and tokens[i].text.lower() == "t" and said[i - 2]:
            said[i] = "not"
    return said


def folded(text: str) -> str:
    """A word in lower case. Letters that may be a product or a name keep their case: `mgh` is not `Mgh`, `AB` not
    `ab`."""
    lower = text.lower()
    is_word = (
        len(text) > 3 and not VOWELS.isdisjoint(lower) and (text[1:].islower() or (text.isupper() and len(text) > 5))
    )
    for american, british in _SPELLINGS if is_word else ():
        lower = lower.replace(british, american)
    return lower if is_word or lower in _SHORT_WORDS else text


def canonical(read: list[str]) -> str:
    """Words in one spelling: `north west` and NW are northwest, Wed is wednesday."""
    if len(read) == 1:
        return _CORNERS.get(read[0]) or _DAYS.get(read[0].lower()) or read[0]
    kept = read[1:] if read[0] == "due" and read[1] in _COMPASS else read
    if len(kept) == 3 and kept[1] == "of":  # point of inflection
        return f"{kept[2]} {kept[0]}"
    text = " ".join(kept)
    return text.replace(" ", "") if _COMPASS.issuperset(kept) else text


def ranked(tokens: Tokens) -> str:
    """The ordinal phrases `the second player`, `Player 2`, `the player who moves second` as "player 2"; "" for anything
    else."""
    said = [token.text.lower() for token in tokens if token.text.lower() not in ("the", "-")]
    if len(said) == 3 and said[1] in ("st", "nd", "rd", "th"):
        said = [said[0], said[2]]
    if len(said) == 4 and said[1] in ("who", "that") and said[3] in _ORDINALS:
        said = [said[0], said[3]]
    if len(said) != 2 or not _RANKED & {*said}:
        return ""
    noun, rank = said if said[0] in _RANKED else said[::-1]
    if noun == said[0] and rank in ("st", "nd"):
        return ""
    value = rank if rank.isdigit() else _ORDINALS.get(rank) or _ROMAN.get(rank)
    return f"{noun} {value}" if value else ""


def without_order(tokens: Tokens) -> Tokens:
    """Tokens without "respectively" or "in this order" at the end."""
    length = next((len(end) for end in _IN_ORDER if tuple(map(word, tokens[-len(end) :])) == end), 0)
    kept = tokens[: len(tokens) - length] if length else tokens
    return kept[:-1] if length and kept and kept[-1].isa(",") else kept


def numbered(tokens: Tokens) -> Tokens:
    """The tokens with number words and magnitudes as numbers: `twenty-five`, `two thirds`, `5 million`. Numbers in
    words alone are `upright`."""
    if not any(_singular(word(token)) in _NUMERIC for token in tokens):
        return tokens
    result: list[Token] = []
    index = 0
    spoken = [word(token) for token in tokens]
    while index < len(tokens):
        value, end = _number(tokens, index)
        token = tokens[index]
        if spoken[index : index + 3] == ["plus", "or", "minus"]:
            result.append(Token("command", "\\pm", token.gap))
            index += 3
            continue
        is_root = spoken[index] in ("square", "cube") and spoken[index + 1 : index + 3] == ["root", "of"]
        if is_root and index + 3 < len(tokens):
            third = (Token("op", "["), Token("number", "3", value=Fraction(3)), Token("op", "]"))
            result += [Token("command", "\\sqrt", token.gap), *third[: 3 * (spoken[index] == "cube")]]
            index += 3
            continue
        if spoken[index] in ("times", "the") and result and "root" in spoken[index + 1 : index + 4]:
            result += [Token("op", "\\cdot")] * (spoken[index] == "times")
            index += 1
            continue
        is_sign = spoken[index] in ("minus", "negative") and not (
            index and tokens[index - 1].kind in ("number", "name")
        )
        if is_sign and _signs(tokens, index + 1):
            token = Token("op", "-", token.gap)
        elif end > index:
            text = str(value) if value.numerator.bit_length() < _LONGEST_NUMBER else token.text  # str() has a limit
            token = Token("number", text, token.gap, value, token.kind != "number")
        result.append(token)
        index = max(end, index + 1)
    return tuple(result)


def _signs(tokens: Tokens, begin: int) -> bool:
    """True if a number begins here."""
    follows = tokens[begin : begin + 1]
    is_number = follows and (follows[0].kind == "number" or follows[0].isa("\\infty", "\\frac", "\\sqrt"))
    return bool(is_number or (follows and _number(tokens, begin)[1] > begin))


def is_numeral(text: str) -> bool:
    """True if this is a number word: six, tenths, million."""
    return _singular(text) in _NUMERAL | _SMALL.keys()


def _singular(text: str) -> str:
    return text[:-1] if text.endswith("s") and text[:-1] in _NUMERAL else text


def _number(tokens: Tokens, begin: int) -> tuple[Fraction, int]:
    """The number that begins here, in words or in digits with words after them, and where it ends: at `begin` if there
    is none."""
    total, current, last, end = Fraction(0), None, 0, begin
    index = begin
    if tokens[begin].text.lower() in ("a", "an") and tokens[begin + 1 :]:  # a quarter, a dozen
        follows = word(tokens[begin + 1])
        current, last, index = (1, 1, begin + 1) if follows in _NUMERAL and follows != "half" else (None, 0, begin)
    if tokens[begin].kind == "number":
        follows = tokens[begin + 1] if begin + 1 < len(tokens) else tokens[begin]
        if (begin and tokens[begin - 1].isa("^", "_", "{", "/")) or word(follows) == "quarters":  # coins
            return total, begin
        current, last, index = tokens[begin].value, 1, begin + 1
    while index < len(tokens):
        text = word(tokens[index])
        size = _singular(text)
        if text == "and" and current is not None and last < 100 and tokens[index + 1 :]:  # three and a quarter
            part, after = _number(tokens, index + 1)
            if after > index + 1 and 0 < part < 1 and current.denominator == 1:
                return total + current + part, after
        joins = (text == "and" and last >= 100) or (tokens[index].isa("-") and not tokens[index].gap)
        if current is not None and joins:
            index += 1  # in the middle, if a number word follows
            continue
        if text in _SMALL and (current is None or last >= 100 or (last == 10 and 0 < _SMALL[text] < 10)):
            current = (current or 0) + Fraction(_SMALL[text])
            last = 10 if _SMALL[text] >= 20 else 1
        elif size in _MAGNITUDES and (current is not None or size == text):
            current, last = (1 if current is None else current) * Fraction(_MAGNITUDES[size]), _MAGNITUDES[size]
            if last >= 1000:
                total, current = total + current, Fraction(0)
        elif size in _PARTS and (text == "half" or current is not None) and (size != text or current in (None, 1)):
            return total + Fraction(1 if current is None else current) / _PARTS[size], index + 1
        else:
            break
        index += 1
        end = index
    return total + (current or 0), end


def is_noun_phrase(words: list[str], count: Fraction | None) -> bool:
    """True if the words after a count only name what is counted: a noun, with at most two words before it, or with
    `of …` after it."""
    lowered = [text.lower() for text in words]
    if len(words) == 1 and words[0] in _MEASURES:
        return True
    if "of" in lowered:
        at = lowered.index("of")
        return is_noun_phrase(words[:at], count) and is_noun_phrase(words[at + 1 :], Fraction(1))
    if not 1 <= len(words) <= 3 or any(not t.isalpha() or (t in _NO_NOUNS and t not in _MODIFIERS) for t in lowered):
        return False
    head, numerals = lowered[-1], _MAGNITUDES.keys() | _PARTS.keys() - {"quarter"}
    if head in _NO_NOUNS or len(head) < 3 or any(_singular(text) in numerals for text in lowered):
        return False
    if head.endswith(_IRREGULAR) or (head.endswith("s") and not head.endswith(("ss", "us", "is"))):
        return True
    return count == 1 and len(words) == 1 and words[0].islower()


def noun_stem(words: list[str]) -> tuple[str, ...]:
    """The words of a noun phrase, sorted: in the singular, without modifiers."""
    kept = (text.lower() for text in words if text.lower() not in _MODIFIERS)
    return tuple(sorted(text.removesuffix("s") if len(text) > 3 else text for text in kept))


def _clock(match: re.Match[str]) -> str:
    """`quarter to 9` as 8:45, `10 past noon` as 12:10 pm."""
    minutes = 15 if match["quarter"] else 30 if match["half"] else int(match["minutes"])
    is_named = not match["hour"].isdigit()
    hour = 12 if is_named else int(match["hour"])
    after = match["side"] in ("past", "after")
    if not 0 < minutes < 60 or not 0 < hour < 25 or (match["side"] == "before" and not is_named):
        return match[0]
    half = ("pm" if (match["hour"] == "noon") == after else "am") if is_named else ""
    return f"{hour if after else hour - 1 or 12}:{minutes if after else 60 - minutes:02} {half}"


def moment(tokens: Tokens, bare: bool = False) -> str:
    """A date, a time of day or both, with the fields in one order; "" if it is neither. `May 5` is `5th of May`, 15:30
    is 3:30 PM. A time without AM or PM has no half of the day, and counts only if it may be `bare`."""
    text = _NEXT_DAY.sub("", "".join(" " * token.gap + token.text for token in tokens).lower())
    text = _ISO_DATE.sub(lambda match: f"{[*_MONTHS][int(match[2]) - 1]} {int(match[3])}, {match[1]}", text)
    text = _DOTTED_TIME.sub(r"\1:\2", _SPOKEN_TIME.sub(_clock, text))
    fields: dict[str, str] = {}
    numbers, end, named = [], 0, False
    while end < len(text):
        match = _WHEN.match(text, end)
        if match is None:
            return ""
        end = match.end()
        kind, piece = match.lastgroup, match["word"] or ""
        field = "half" if kind == "half" else "time" if kind == "minute" else ""
        value = f"{match['half']}m" if kind == "half" else f"{match['hour']}:{match['minute']}"
        if piece in _HALVES:
            field, value = "half", _HALVES[piece]
        elif piece in ("noon", "midnight"):
            field, value = "half", "pm" if piece == "noon" else "am"
            numbers = numbers or ["12"] if "time" not in fields else numbers
        elif piece in _MONTHS or piece in _WEEKDAYS:
            field = "month" if piece in _MONTHS else "weekday"
            value = str(_MONTHS.get(piece, piece))
        elif kind == "number":
            numbers.append(match["number"])
        elif piece in ("h", "hrs") and "time" in fields:
            named = True
        elif piece and piece not in ("on", "at", "of", "the", "in", "o", "clock"):
            return ""
        if field:
            named |= kind == "word"
            if fields.setdefault(field, value) != value:
                return ""
    if "half" in fields and "time" not in fields and numbers and int(numbers[0]) <= 12:
        fields["time"] = f"{numbers.pop(0)}:00"
    if not (bare or named) and not {"time", "half"} <= fields.keys():
        return ""
    for number in numbers:
        field = "year" if len(number) == 4 else "day"
        if field in fields or (field == "day" and ("month" not in fields or int(number) > 31)):
            return ""
        fields[field] = str(int(number))
    if "time" in fields:
        hour, minute = fields["time"].split(":")
        fields |= {"half": "pm"} if int(hour) >= 13 else {}
        fields["time"] = f"{int(hour) % 12 or 12}:{minute}"
    return " ".join(f"{field} {value}" for field, value in sorted(fields.items()))
