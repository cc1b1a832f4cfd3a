"""Detect the language of a text, offline and deterministically."""

from functools import cache
from typing import Any

from ratchet.verifiers.errors import not_installed

_CODES = """
    af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl no pa pl pt ro ru
    sk sl so sq sv sw ta te th tl tr uk ur vi zh"""
LANGUAGES = tuple(_CODES.split())
"""Languages of the published evaluation's detector, as ISO 639-1 codes."""
MIN_PROBABILITY = 0.1
"""Least probability of a language: low, because a few words do not determine one."""
MAX_CHARACTERS = 4000
"""Characters of a text that are read: its start is enough."""
NO_LANGUAGE = "zxx"  # code, digits, markup


def language_code(code: str) -> str:
    """The ISO 639-1 code without its region. Raises ValueError for a language that cannot be detected."""
    short = code.strip().lower().replace("_", "-").partition("-")[0]
    if short not in LANGUAGES:
        raise ValueError(f"the language {code!r} is none of {', '.join(LANGUAGES)}")
    return short


def is_in_language(text: str, language: str) -> bool:
    """True if the text is probably in this language; a text without letters is in none."""
    sample = text[:MAX_CHARACTERS].lower()
    return any(map(str.isalpha, sample)) and probabilities(sample)[language] >= MIN_PROBABILITY


def probabilities(text: str) -> dict[str, float]:
    """The probability of each of `LANGUAGES` and of no language, the most likely first."""
    return dict(_identifier().rank(text.encode(errors="replace").decode()))  # half a surrogate pair is no Unicode


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise not_installed("The language of a response", "instructions") from error

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages([*LANGUAGES, NO_LANGUAGE])
    return identifier
