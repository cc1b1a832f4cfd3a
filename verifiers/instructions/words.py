"""Count and split the words and sentences of a text as NLTK does in the published evaluations, without its models."""

import re

_WORD = re.compile(r"\w+")
_JOINED = re.compile(r"\w+(?:[-/.]\w+)*")
_END = re.compile(r"(?<![.?!])[.?!]++(?=[\s\"')\]}*:;({\[@])")
_ABBREVIATIONS = """
    mr mrs ms messrs dr prof sr jr st rep reps sen gen col lt maj adm vs ft co corp cos inc ltd bros ave ct conn
    minn mich wash calif va vt pa ga fla ill ok jan feb aug sep sept oct nov dec tues wed fri yr mg a.m p.m
    ph.d m.b.a u.s u.k u.n u.s.a u.s.s.r d.c l.a n.y n.j n.c s.c r.i w.va c d e f g h k l m n p r s t v w"""
_STARTERS = """
    he i it they these this there the so some most many both if in but yet nor when while since under even
    although though however indeed instead thus moreover meanwhile despite according among similarly"""
_UNENDED, _BEGINNING = frozenset(_ABBREVIATIONS.split()), frozenset(_STARTERS.split())
_COMMON = _BEGINNING | {"a", "on", "at", "she", "we", "that", "and", "then", "for", "what", "how"}
_OPENING = "\"'“‘([{*_`#>-"
_CLOSING = re.compile(r"\s*[\"')\]}]+(?=\s|--|$)")
_MARKS = r";@#$%&?!*\[\](){}<>\"«»“”‘’„"
_TOKEN = re.compile(
    rf"\.{{2,}}|--|''|``?|[{_MARKS}]|[:,](?!\d)|(?:[^\s{_MARKS}`:,.'-]|[:,](?=\d)|\.(?!\.)|'(?!')|-(?!-))+"
)
_CLITIC = re.compile(r"(?<!')(?:n't|'(?:s|m|d|ll|re|ve)?)\Z", re.IGNORECASE)
_CONTRACTIONS = {"cannot": 3, "gonna": 3, "gotta": 3, "gimme": 3, "lemme": 3, "wanna": 3}
_NEAR = 40
"""Characters before and after a period that are searched for a word."""


def count_words(text: str) -> int:
    r"""The number of runs of letters, digits and underscores: "well-known" is two words, "don't" too."""
    return sum(1 for _ in _WORD.finditer(text))


def count_capital_words(text: str) -> int:
    """The number of words with a capital letter and no lowercase one, including "A", "3D" and "UP-TO-DATE"."""
    return sum(match[0].isupper() for match in _JOINED.finditer(text))


def count_sentences(text: str) -> int:
    return len(sentences(text))


def sentences(text: str) -> list[str]:
    """The sentences of a text. They end in a period, a question mark or an exclamation mark, except for the period of
    an abbreviation or an initial. A line break alone does not end one, as in the published evaluations (NLTK's
    Punkt)."""
    parts, start = [], 0
    for match in _END.finditer(text):
        if match[0].strip(".") or _ends_sentence(text, match):
            closing = _CLOSING.match(text, match.end())
            end = closing.end() if closing else match.end()
            parts.append(text[start:end].strip())
            start = end
    return [part for part in [*parts, text[start:].strip()] if part]


def _ends_sentence(text: str, period: re.Match[str]) -> bool:
    if len(period[0]) == 1 and not text[period.start() - 1 : period.start()].isalnum():
        return True
    before = text[max(0, period.start() - _NEAR) : period.start()].rsplit(maxsplit=1)[-1:] or [""]
    after = text[period.end() : period.end() + _NEAR].split(maxsplit=1)[:1] or [""]
    word, following = before[0].lstrip(_OPENING).rsplit("-")[-1], after[0]
    begins = following.rstrip(",").lower() if following[:1].isupper() else ""
    if word[-1:].isdigit():  # "1." before an item of a list
        return not following[:1].islower()
    if len(period[0]) > 1 or word.lower() in _UNENDED:
        return begins in _BEGINNING and len(word) != 1
    initial = len(word) == 1 and word.isalpha()
    return not initial or begins in _COMMON or not following[:1].isalpha()


def tokens(text: str) -> list[str]:
    """The words and punctuation marks: "don't" is two, a decimal number and a word with hyphens one (NLTK's
    tokenizer)."""
    split: list[str] = []
    for sentence in sentences(text):
        body = sentence.rstrip("])}>\"'»”’ ")
        if body.endswith(".") and not body.endswith(".."):
            sentence = f"{body[:-1]} . {sentence[len(body) :]}"
        for token in _TOKEN.findall(sentence):
            if len(token) > 1 and (clitic := _CLITIC.search(token, 1)):
                split += token[: clitic.start()], clitic[0]
            elif first := _CONTRACTIONS.get(token.lower()):
                split += token[:first], token[first:]
            else:
                split.append("''" if token == '"' else token)  # as there: a response may end in it as in a word
    return split
