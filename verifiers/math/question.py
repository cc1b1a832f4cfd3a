"""Requirements of a question on its answer, read by its words: form, unit, order, base, percentage, count, names."""

import functools
import re

from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.choices import choices_of
from ratchet.verifiers.math.evaluated import is_left_to_do
from ratchet.verifiers.math.expression import parse_expression
from ratchet.verifiers.math.parts import trimmed
from ratchet.verifiers.math.question_order import FORMULA, SENTENCE, sets_order
from ratchet.verifiers.math.sentences import direction
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.math.tokens import Tokens, Unreadable, spelled, tokenize
from ratchet.verifiers.math.units import DEGREE, NO_UNITS, Unit, parse_unit

_I, _S = re.IGNORECASE, re.DOTALL
_WORDS_AND_NUMBERS = re.compile(r"(?<![a-z\\])[a-z]+|[0-9]+(?:[.][0-9]+)?")
FORMS = {
    "factored": r"\bfactori[sz]e\b|\bfactor\b(?!s)(?! of)",
    "expanded": r"\bexpand\b|\bmultiply out\b|\bwithout (?:brackets|parentheses)",
    "in lowest terms": r"\blowest (?:\S+ )?(?:terms|form)|\bsimplest\b|\bsimplif|\breduced?\b|\birreducible",
    "in scientific notation": r"\bscientific notation|\bstandard (?:index )?form of the number|\bexponential notation",
    "rounded": (
        r"\bnearest\b|\bdecimal places?\b|\bto (?:\w+|\d) decimals\b|\bsignificant (?:figures|digits)"
        r"|\bround(?:ed)?\b(?: your| the| to| off|\.)"
    ),
    "a fraction": r"\b(?:as|to|into) an? (?:\w+ )?fraction|\bthe (?:\w+ )?fraction (?:that )?equal|\bas a quotient",
    "a decimal": (
        r"\b(?:as|to|into) an? (?:\w+ )?decimal\b(?! place)|\bin decimal (?:form|notation)"
        r"|\bforme décimale|\bforma decimal|\bDezimal(?:zahl|bruch)"
    ),
    "a mixed number": r"\bas a mixed (?:number|fraction)",
    "a percentage": r"\b(?:as|to|into) an? percent",
    "with positive exponents": r"\bpositive exponents?\b",
    "rationalized": r"\brationali[sz]e\b|\brational denominator",
    "a product of primes": r"\bprime factori[sz]|\bproduct of (?:its )?prime|\bprime powers",
    "a power": r"\bas a power of\b",
    "a sum or product of its numbers": r"\bas (?:a|the) (?:sum|product) of\b",
    "in partial fractions": r"\bpartial fractions?\b",
    "in slope-intercept form": r"\bslope[-– ]+(?:y[-– ]*)?intercept\b",
    "in vertex form": r"\bvertex form|\bcomplet(?:e|ing) the square",
    "in the form of a line": r"\b(?:standard|general|point[-– ]slope) form",
    "in a form": (
        r"\bform\b|\bsolv(?:e|ing)\b[^.?!]*\bfor\b|\bexpress\b|\bin terms of\b|\bas a function of\b"
    ),
}  # fmt: skip
"""Patterns by which a question asks for a form, by the form's name."""
_FORMS = {name: re.compile(pattern, _I) for name, pattern in FORMS.items()}
_TEMPLATE = re.compile(
    r"(?:(?<!closed[ -])(?<!\bwe )(?<!\bto )\bform|\b(?:the|a|this|following) form of)\s+(?:\$|\\[(\[])", _I
)
_SYMBOL = re.compile(
    r"\b(?:find|compute|determine|evaluate|calculate|what is) "
    r"(?:(?:the )?(?:set of )?(?:all )?(?:the )?(?:possible )?(?:values?|length|measure|size) of )?"
    r"(?:\$([^$]{1,60})\$|([A-Za-z](?:_\d)?|[A-Z]{2}|[A-Z]\([A-Z]\))(?=[.?]| (?:if|when|given)\b))"
    r"(?!\s*(?:,|and\b|or\b)\s*(?:and |or )?\$)",
    _I,
)
_NAME = r"\$?\\?\(?\s*([A-Za-z](?:_\w)?|\\[a-z]+)(?![A-Za-z])"
_SOLVED = (
    re.compile(rf"\bsolv(?:e|ing)\b[^.?!]{{0,120}}?\bfor (?:the |positive |real |all )*{_NAME}", _I),
    re.compile(
        rf"\b(?:express|write|find|give|determine)\s+{_NAME}[$)\\]*,?\s+(?:in terms of|as a function|explicitly)", _I
    ),
    re.compile(rf"\bmake\s+{_NAME}[$)\\]*\s+the subject", _I),
)
_WORK = re.compile(
    r"\b(?:simplify|evaluate|compute|calculate|expand|factor(?:i[sz]e)?|rationali[sz]e|convert|express|write|reduce)\b[^$.]{0,30}?"
    r"(?:\$+([^$]+)\$+|\\\((.+?)\\\)|(?<![\w.])(-?\d[\d.,]*\d(?:/\d+)?)(?![\w$]))",
    _I,
)
_ARITHMETIC = re.compile(r"(?<![\w$])[\d(][\d\s()+\-*/^!×·.,]{0,200}[+\-*/^!×·][\d\s()+\-*/^!×·.,]{0,200}[\d)!]?")
_CONSTANT = re.compile(r"(?<![A-Za-z\\])([ckCK])(?:_\{?(\d)\}?)?(?![A-Za-z])")
_OF_CONSTANTS = re.compile(
    r"antiderivative|integra|\\int(?![a-z])|differential|\by'|dy\b|\bconstants?\b|arbitrary|general solution"
    r"|\ball (?:\w+ ){0,2}(?:functions|polynomials|sequences)|\bfamily\b|recurrence",
    _I,
)
_BASE = (
    r"(?:base[- ]\$?(\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen)\b\$?"
    r"|(binary|octal|decimal|hexadecimal)\b(?! (?:places?|points?|digits?)\b))"
)
_BASES = {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16}
_BASE_ASKED = re.compile(
    rf"\b(?:to|in|into|as|using)\s+(?:(?:an?|the)\s+)?{_BASE}(?! (?:number|numeral|integer)s?\s+\$?\w*\d)"
    rf"|(?<!whose )(?<!with )(?<!has )\b{_BASE} (?:value|representation|form|expansion|equivalent|notation)\b"
    rf"|\bwhat (?:number (?:in|to) )?{_BASE}",
    _I,
)
_REQUEST = re.compile(
    r"\?|\b(?:convert|write|express|find|compute|give|change|calculate|evaluate|represent|add|subtract|multiply|divide"
    r"|answer|determine|rewrite|translate|state)\b",
    _I,
)
_COUNTED = re.compile(
    r"(?:\bhow many|\b(?:find|determine|compute|calculate|give|what (?:is|was)) the (?:total |whole )*number of)\s+"
    r"((?:(?!(?:of|are|is|was|were|can|do|does|did|will|would|could|should|must|may|has|have|had|that|which|who|with"
    r"|for|from|to|at|on|in|per|and|or|if|he|she|they|it|you|we)\b)[\w$-]+(?![\w$-])\s*)+)[^?]*\??[^?]*\Z",
    _I,
)
_NUMERALS = "one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|[a-z]+ty|hundred"
_PERCENT = re.compile(
    rf"\b(?:what|which)\b(?:(?!\b(?:{_NUMERALS}|before|after|than|dollars)\b)[^.?!;\d$]){{0,60}}?\bpercent|\b(?:as|in)\s+(?:an?\s+)?percent",
    _I,
)
"""Percentages that are requested, not given ("after twenty percent off, what")."""
_UNIT = re.compile(
    r"\b(?:in|In(?=\s[a-z]+,)|to|as|[Hh]ow many|nearest|[Nn]umber of)\s+"
    r"(?:(?:more|fewer|additional|extra|whole|full|total|US) )*"
    r"(?:degrees (?=[CFcf]))?\$?"
    r"((?:(?:square|cubic|sq\.?)\s+)?[A-Za-zµμ°£€¢][A-Za-z/^{}\d²³·°⁻¹]*"
    r"(?:\s+(?:per|squared|cubed)(?:\s+(?:square|cubic))?\s+[a-z]+|\s+(?:squared|cubed))*)(?![A-Za-z])"
)
_TYPESET = re.compile(r"\\(?:text|mathrm|textrm|rm|[,;: ])|[{}~$]")
_MONEY = (("dollar", 1),)
_DOLLARS = re.compile(
    r"\\\$\s?\d|\$\d[\d,]*\.\d\d(?![\d$])"
    r"|\$\d[\d,]* (?:an?|per|for|each|every|to|more|less|of|and|on|in|at|[a-z]{4,})\b"
)
"""Dollars as in TeX, with cents, or before a word of plain text."""
_MEASURE = re.compile(
    r"(?<![\w.])(\d[\d.,]*[\s-]*)?((?:(?:square|cubic|sq\.?)\s+)?[A-Za-z]+"
    r"(?:\s*(?:/|\bper\b)\s*[A-Za-z]+)?(?:\s*\^\s*[23]|[23](?!\d)|²|³)?)"
)
_DECIMAL = re.compile("10*")
_PLURAL = re.compile(r"[ -](?!(?:is|was|does|has|as|less|plus|minus)\b)[a-z]+s\b")  # of `gallon jugs`
_COPRIME = re.compile(
    r"\bgcd\b[^.?!]*=\s*\$?1|\b(?:relatively|mutually) prime\b|\bco-?prime\b|\bno common (?:\w+ )?(?:factor|divisor)"
    r"|\bmonic\b|\bgreatest common (?:factor|divisor)[^.?!]{0,60}\b(?:is|equal to|of) \$?1",
    _I,
)
_POSITIVE = re.compile(r"\b[ABabmp]\s*(?:>|\\gt)\s*0|\bpositive\b|\\ge\s*0", _I)
_MODULUS = re.compile(r"(?:\bmod(?:ulo)?|\\p?mod|\bdivided by)\s*\$?\{?\s*(\d+)")
_VECTORS = re.compile(r"\bbas[ie]s (?:of|for)\b|\beigenvectors?\b|\b(?:direction|normal) vectors?\b", _I)
_FIXED_VECTORS = re.compile(r"\bunit\b|\borth|\bnormali[sz]ed\b|\blength\b", _I)
_LAST = re.compile(r"\b(?:last (two |three |four )?|units )digits?\b", _I)
_LAST_DIGITS = {"": "10", "two": "100", "three": "1000", "four": "10000"}
_ASCENDING = re.compile(
    r"(?:small|low|least|short|young|light|slow)\w*\b.{0,40}\bto\b|\bincreasing|\bascending", _I
)  # fmt: skip
_DESCENDING = re.compile(
    r"(?:large|great|high|long|old|heav|fast|tall)\w*\b.{0,40}\bto\b|\bdecreasing|\bdescending", _I
)
_CHOICES = re.compile(r"\w+(?:, \w+)*,? or (?:the |an? )?\w+", _I)
_SAME_NOUN = re.compile(r"\b(\w+) (\w+),? or (?:the |an? )?(\w+) \2\b", _I)


def _words_of(text: str) -> str:
    """The words and numbers of a text, each between spaces."""
    return f" {' '.join(_WORDS_AND_NUMBERS.findall(text.lower()))} "


class Question:
    """The requirements of one question; each is found when it is first needed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._said: dict[re.Pattern[str], bool] = {}

    def says(self, pattern: re.Pattern[str]) -> bool:
        """True if the pattern matches anywhere in the question; each is tried once for all responses to it."""
        if pattern not in self._said:
            self._said[pattern] = bool(pattern.search(self.text))
        return self._said[pattern]

    @functools.cached_property
    def last_sentence(self) -> str:
        """The question's last request, or its last sentence if there is none."""
        sentences = SENTENCE.split(self.text.strip())
        return next((each for each in reversed(sentences) if _REQUEST.search(each)), sentences[-1])

    def names(self, name: str) -> bool:
        """True if the question has a variable of this name."""
        return bool(re.search(rf"(?<![A-Za-z\\]){re.escape(name)}(?![A-Za-z])", self.text))

    @functools.cached_property
    def fixed(self) -> frozenset[str]:
        """The letters for constants that the question gives: in `2x + c` they are not arbitrary, unless it is about
        integrals, differential equations or families of functions."""
        if self.says(_OF_CONSTANTS):
            return frozenset()
        return frozenset(f"{letter}_{index}" if index else letter for letter, index in _CONSTANT.findall(self.text))

    @functools.cached_property
    def symbol(self) -> Tokens:
        """The formula that the question asks the value of, `Find $x_2$`; empty if it has none, or several."""
        asked = {match[1] or match[2] for match in _SYMBOL.finditer(self.text)}
        try:
            return trimmed(tokenize(asked.pop())) if len(asked) == 1 else ()
        except Unreadable:
            return ()

    @functools.cached_property
    def alternatives(self) -> frozenset[str]:
        """The words of things of which the question lets choose, `Alice or Bob`, in small letters."""
        words = [word for match in _CHOICES.finditer(self.text) for word in re.findall("[A-Za-z]+", match[0])]
        words += [word for match in _SAME_NOUN.finditer(self.text) for word in match.group(1, 3)]
        if any(word.istitle() and word[1:] for word in words):  # in the race, Alice or Bob
            words = [word for word in words if word.istitle()]
        said = re.findall("[a-z]+", self.text.lower())
        return frozenset(word.lower() for word in words if said.count(word.lower()) == 1) - {"or", "the", "a", "an"}

    @functools.cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the question's words."""
        return frozenset(stem(word) for word in re.findall(r"[a-z]+|\d+", self.text.lower()))

    @functools.cached_property
    def _words(self) -> str:
        return _words_of(self.text)

    def quotes(self, text: str) -> bool:
        """True for text that this question has, word by word, and that is more than a counted noun: `A box holds six
        eggs` states no answer, even if six are left."""
        said = _words_of(text)
        count = said.count(" ") - 1
        return said in self._words and (count > 4 or (count > 2 and not re.match(rf" (?:\d|{_NUMERALS}\b)", said)))

    @functools.cached_property
    def forms(self) -> frozenset[str]:
        """The names of the FORMS that the question asks for."""
        return frozenset(name for name, pattern in _FORMS.items() if self.says(pattern))

    @functools.cached_property
    def has_template(self) -> bool:
        """True if the question shows the form, `in the form $a\\sqrt{b}$`."""
        return self.says(_TEMPLATE)

    @functools.cached_property
    def letter(self) -> str:
        """The letter to solve for; "" if there is none."""
        letters = [match[1] for pattern in _SOLVED for match in pattern.finditer(self.text)]
        return letters[-1] if letters else ""

    @functools.cached_property
    def given(self) -> frozenset[str]:
        """The spellings of expressions to be simplified, converted and the like, and of formulas that are left to
        do."""
        worked = (next(filter(None, match.groups())) for match in _WORK.finditer(self.text))
        done = {parse_answer(text.strip()).spelling for text in worked} - {""}
        expressions = (each for each in self.formulas if (node := parse_expression(each)) and is_left_to_do(node))
        return frozenset(done | {spelled(each) for each in expressions if not self.options})

    @functools.cached_property
    def fixes_coefficients(self) -> bool:
        """True if the coefficients of an equation have no factor in common: `\\gcd(A, B, C) = 1`."""
        return self.says(_COPRIME)

    @functools.cached_property
    def fixes_sign(self) -> bool:
        """True if the question says which of the coefficients is positive."""
        return self.says(_POSITIVE)

    @functools.cached_property
    def direction(self) -> int:
        """-1 if the question asks how far something falls, 1 if how far it rises, 0 otherwise."""
        said = {direction(word.lower()) for word in re.findall(r"[A-Za-z]+", self.text)} - {0}
        return said.pop() if len(said) == 1 else 0

    @functools.cached_property
    def base(self) -> int:
        """The one base that the answer must be in, not that of a given number; 0 if there is none."""
        sentences = [each for each in SENTENCE.split(self.text) if _REQUEST.search(each)]
        written = (next(filter(None, match.groups())) for each in sentences for match in _BASE_ASKED.finditer(each))
        bases = {_BASES.get(text.lower()) or parse_answer(text).value for text in written}
        return int(bases.pop() or 0) if len(bases) == 1 else 0

    @functools.cached_property
    def is_count(self) -> bool:
        """True if the last request is for a number of things that are not units: `how many 15 cm pieces`, not `how many
        square meters`."""
        match = _COUNTED.search(self.text)
        nouns = re.findall(r"[A-Za-z]+|\d+", match[1]) if match else []
        units = (
            not before.isdigit() and parse_unit(noun) and not after.endswith("s")
            for before, noun, after in zip(["", *nouns], nouns, [*nouns[1:], ""], strict=False)
        )
        return bool(nouns) and not any(units)

    def counts(self, nouns: tuple[str, ...]) -> bool:
        """True if the question asks how many of these things there are."""
        match = _COUNTED.search(self.text)
        asked = {stem(word) for word in re.findall(r"[a-z]+", match[1].lower())} if match else {""}
        return any(stem(noun) in asked for noun in nouns)

    def in_order(self, parts: tuple[Answer, ...]) -> tuple[Answer, ...] | None:
        """Counts of several things in the order in which the question names these, first in its request; None if it
        does not name all."""
        nouns = [part.unit.words[0] if part.unit and part.unit.words else "" for part in parts]
        if len(nouns) < 2 or len({*nouns} - {""}) < len(nouns):
            return None
        for text in (self.last_sentence, self.text):
            places = [text.lower().find(noun) for noun in nouns]
            if -1 not in places:
                return tuple(part for _, part in sorted(zip(places, parts, strict=True), key=lambda each: each[0]))
        return None

    @functools.cached_property
    def is_percentage(self) -> bool:
        """True if a bare number as the answer is a percentage."""
        return self.says(_PERCENT)

    @functools.cached_property
    def unit(self) -> tuple[str, Unit] | None:
        """The unit that the question asks for, `in kilometers per hour`; None if it names none, or several."""
        units: dict[Unit, str] = {}
        for match in _UNIT.finditer(self.text):
            pieces = match[1].split()
            texts = (" ".join(pieces[:end]) for end in range(len(pieces), 0, -1))
            text, unit = next(((text, unit) for text in texts if (unit := parse_unit(text))), ("", None))
            is_adjunct = match[0][0] in "hH" and not text.endswith("s") and _PLURAL.match(self.text, match.end())
            is_name = len(text) == 1 and (not match[0].startswith("in") or "$" in match[0])
            if unit is not None and not is_adjunct and not is_name:
                units[unit._replace(words=())] = text
        if not units and re.search(r"\bdegree[- ]measure", self.text):
            return "degrees", DEGREE
        return next(iter((text, unit) for unit, text in units.items())) if len(units) == 1 else None

    @functools.cached_property
    def _measures(self) -> tuple[dict[Unit, str], frozenset[Unit]]:
        """The units that it gives quantities in (`24 inches`) with their spelling, and all that it names."""
        given: dict[Unit, str] = {}
        named = set()
        for number, text in _MEASURE.findall(_TYPESET.sub(" ", self.text)):
            for word in (text, *re.findall(r"[A-Za-z]+", text)):
                if word.lower() not in NO_UNITS and (unit := parse_unit(word)):
                    named.add(unit)
                    if number and word == text:
                        given.setdefault(unit, text)
        if self.says(_DOLLARS) and (dollar := parse_unit("dollar")):
            named.add(dollar)
        return given, frozenset(named)

    def unit_instead(self, unit: Unit) -> str:
        """The unit of the question's quantities of this kind if it never names this one; otherwise "". Square meters
        are those of lengths in meters."""
        given, named = self._measures
        money = {each for each in named | {unit} if each.dimension == _MONEY}
        if unit in money and len(money) > 1 and unit.size < max(each.size for each in money):
            return "dollars too"  # a bare number of cents is asked for as such
        if any(_raised(each, unit) == unit for each in named):
            return ""
        of_its_kind = (text for each, text in given.items() if _raised(each, unit).dimension == unit.dimension)
        part = next((each for each in named if each.dimension == unit.dimension), None)  # the miles of miles per hour
        is_other = part is not None and not _DECIMAL.fullmatch(str(max(part.size / unit.size, unit.size / part.size)))
        return next(of_its_kind, "its own unit" if is_other else "")

    @functools.cached_property
    def moduli(self) -> frozenset[str]:
        """Numbers that the question divides by; 100 for the last two digits."""
        last = {_LAST_DIGITS[(match[1] or "").lower().strip()] for match in _LAST.finditer(self.text)}
        return frozenset(_MODULUS.findall(self.text)) | last

    @functools.cached_property
    def vectors(self) -> bool | None:
        """True if the question asks for a basis, False for vectors whose length is free, None for neither."""
        is_fixed = not self.says(_VECTORS) or self.says(_FIXED_VECTORS)
        return None if is_fixed else re.search(r"\bbas[ie]s\b", self.text, _I) is not None

    @functools.cached_property
    def ranking(self) -> str:
        """The order that the question asks for: `<` from small to large, `>` from large to small; otherwise ""."""
        rising, falling = self.says(_ASCENDING), self.says(_DESCENDING)
        return "" if rising == falling else "<" if rising else ">"

    @functools.cached_property
    def formulas(self) -> tuple[Tokens, ...]:
        """The formulas in the question, as tokens."""
        written = [next(filter(None, match.groups())) for match in FORMULA.finditer(self.text)]
        read = []
        for text in written + _ARITHMETIC.findall(self.text):
            try:
                read.append(trimmed(tokenize(text)))
            except Unreadable:
                continue
        return tuple(read)

    @functools.cached_property
    def conditions(self) -> frozenset[str]:
        """The spellings of the question's formulas that are not equations."""
        signs = ("\\ne", "<", ">", "\\le", "\\ge", "\\in")
        return frozenset(spelled(each) for each in self.formulas if any(token.isa(*signs) for token in each))

    @property
    def options(self) -> dict[str, str]:
        """The texts of the choices that the question lists, by letter, from A on; empty if it lists none."""
        return choices_of(self.text).texts

    def orders(self, count: int) -> bool:
        """True if the question sets the order of a list of `count` values."""
        return sets_order(self.text, count)


def _raised(unit: Unit, other: Unit) -> Unit:
    """A unit of length as one of area or volume where the other is one."""
    if len(unit.dimension) == len(other.dimension) == 1 and unit.dimension[0][1] == 1 < other.dimension[0][1]:
        [(base, _)], [(_, power)] = unit.dimension, other.dimension
        return Unit(((base, power),), unit.size**power)
    return unit


def stem(word: str) -> str:
    """The stem of a word: need for `needs` and `needed`."""
    for ending in ("ing", "ed", "es", "s", "d", "e"):
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return stem(word.removesuffix(ending))
    return word


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Question:
    return Question(text)
