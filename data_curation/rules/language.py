"""Decide whether a statement is in English, by its prose without formulas and code, if there is enough of it."""

import re

from ratchet.data_curation.rules.evidence import Evidence
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.instructions.language import NO_LANGUAGE, probabilities
from ratchet.verifiers.problem import Problem

MIN_LETTERS = 25
"""Fewest letters of prose whose language is judged; with fewer, only another script counts as another language."""
MAX_FOREIGN_SCRIPT = 0.3
MAX_ENGLISH = 0.1
"""Probability of English below which a text is in another language."""
MIN_PROBABILITY = 0.5
"""Least probability of the most likely language; names and units are spread over many languages."""
MAX_CHARACTERS = 2000
"""Characters of prose that are examined: enough to detect its language."""
# Bounded repetitions: with many opening marks, the time would be quadratic.
_ENVIRONMENT = re.compile(r"\\begin\{(\w{1,20}\*?)\}.{0,9999}?\\end\{\1\}", re.DOTALL)
_PROSE_WORD = re.compile(  # of a text in lower case; skips what is no prose
    r"([^\W\d_]++)(?!\w|\(|\.\w)[\s,.;:]*+"
    r"|\[asy\].{0,9999}?\[/asy\]|```.{0,9999}?```|`[^`\n]{0,999}`"  # drawings and code
    r"|\$\$.{0,2999}?\$\$|\$[^$]{0,999}\$|\\\[.{0,2999}?\\\]|\\\(.{0,999}?\\\)"  # formulas
    r"|\\[a-z]+"  # other LaTeX
    r"|https?://\S+|<[^<>]{0,999}>"
    r"|\b[a-z_]\w*+(?:\.\w+){0,5}\([^()]{0,200}\)"  # a call
    r"|(?<!\w)[a-z]*+[_\d][a-z0-9_]*"  # a name with a digit or an underscore
    r"|([^\W\d_]+)",
    re.DOTALL,
)
_TEXT_IN_FORMULAS = re.compile(r"\\(?:text|mbox)\w{0,4}\{([^{}]{2,200})\}")

# Frequent in statements, and rare in other languages.
ENGLISH_WORDS = """
    the and which what with that for are how each when such from this between let than then of is to by be not many
    number numbers given return if these their them it has have find compute evaluate determine simplify calculate
    convert write solve describe express"""
_ENGLISH = frozenset(ENGLISH_WORDS.split())


def non_english(problem: Problem, limits: Rules) -> Evidence | None:
    """The statement is in another language."""
    text = problem.prompt
    in_formulas = " ".join(_TEXT_IN_FORMULAS.findall(text)) if "\\" in text else ""
    text = _ENVIRONMENT.sub(" ", text) if "\\begin" in text else text
    found = (pair for part in (text, in_formulas) for pair in _PROSE_WORD.findall(part.lower()))
    words = [word for first, last in found if (word := first or last)]
    letters = sum(map(len, words))
    if not text.isascii():
        characters = [c for c in "".join(words) if c.isalpha()]
        letters = len(characters)
        # Latin letters end at U+024F, accented ones at U+1EFF.
        foreign = sum(not (c <= "ɏ" or "Ḁ" <= c <= "ỿ") for c in characters) / max(letters, 1)
        if foreign > MAX_FOREIGN_SCRIPT:
            return {"share_of_other_scripts": round(foreign, 3)}
    english = sum(word in _ENGLISH for word in words)
    # Of a few words one known word is enough: names and units belong to no language.
    if letters < MIN_LETTERS or english >= max(1, 0.15 * len(words)) or english >= max(3, 0.1 * len(words)):
        return None
    likely = probabilities(" ".join(words)[:MAX_CHARACTERS])
    best, probability = next(iter(likely.items()))
    if best == NO_LANGUAGE or likely["en"] >= MAX_ENGLISH or probability < MIN_PROBABILITY:
        return None
    return {"language": best, "probability": round(probability, 3), "english": round(likely["en"], 3)}
