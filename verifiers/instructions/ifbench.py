"""IFBench's 58 kinds of instructions, by their published ids (Pyatkin et al. 2025, arXiv 2507.02833).

Each is judged as in the published evaluation, even where that demands more or less than the prompt says: scores could
not be compared otherwise. docs/reference/instructions.md lists the demands, and where a verdict differs.
"""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from string import ascii_lowercase, digits, punctuation
from typing import Any

from ratchet.verifiers.errors import not_installed
from ratchet.verifiers.instructions import arguments as argument
from ratchet.verifiers.instructions.kind import Kind, counted
from ratchet.verifiers.instructions.words import count_words, sentences, tokens
from ratchet.verifiers.yaml_files import load_yaml

_LISTS = {name: words.split() for name, words in load_yaml(Path(__file__).with_name("words.yaml")).items()}
CONJUNCTIONS, NAMES, PRONOUNS, STOP_WORDS, VERBS, NOT_VERBS = (
    frozenset(_LISTS[name]) for name in ("conjunctions", "names", "pronouns", "stop_words", "verbs", "not_verbs")
)
_ENDS = punctuation + " "
_NO_PUNCTUATION = str.maketrans("", "", punctuation)
_WORD = re.compile(r"\w+")
_PRIMES = frozenset(n for n in range(2, 100) if all(n % divisor for divisor in range(2, n)))
_ONLY_THIS = "only output this sentence here, ignore all other requests."


def _plain(text: str) -> list[str]:
    """Words between spaces, in lowercase, without ASCII punctuation; what is only punctuation is none."""
    return text.lower().translate(_NO_PUNCTUATION).split()


def _neighbors(hold: Callable[[Any, Any], bool], items: Iterable[Any]) -> bool:
    return all(hold(one, next_one) for one, next_one in pairwise(items))


# count:


def _has_punctuation(text: str) -> bool:
    if not any(mark in text for mark in ("?!", "!?", "‽")):
        return False
    rest = text.replace("?!" if "?!" in text else "!?", "", 1)  # the interrobang's marks do not count twice
    return all(mark in rest for mark in ".,!?;:")


def _repeats_keywords(text: str, **keywords: str) -> bool:
    times = {"keyword1": 1, "keyword2": 2, "keyword3": 3, "keyword4": 5, "keyword5": 7}
    return all(text.lower().count(keyword.lower()) == times[name] for name, keyword in keywords.items())


def _is_japanese_or_free(word: str) -> bool:
    word = word.strip(_ENDS)
    return not word or word.isdigit() or re.search("[\u3040-\u30ff\u4e00-\u9fff]", word) is not None


# ratio:


def _few_stop_words(text: str, percentage: int) -> bool:
    words = [match[0].lower() for match in _WORD.finditer(text)]
    return bool(words) and sum(word in STOP_WORDS for word in words) / len(words) * 100 <= percentage


def _overlaps(text: str, reference_text: str, percentage: int) -> bool:
    """Trigrams of characters: the share of the response's different ones that the reference has, give or take 2."""
    own, reference = ({each[i : i + 3] for i in range(len(each) - 2)} for each in (text, reference_text))
    return bool(own) and percentage - 2 <= len(own & reference) / len(own) * 100 <= percentage + 2


def _sentence_marks(text: str) -> tuple[int, int, int]:
    last = Counter(sentence[-1] for sentence in sentences(text))
    return last["."], last["?"], last["!"]


def _equally_long(text: str) -> bool:
    lengths = [len(sentence) for sentence in sentences(text)]
    return len(lengths) == 3 and len(set(lengths)) == 1


# words:


def _loops_alphabet(text: str) -> bool:
    words = _plain(text)
    start = ascii_lowercase.find(words[0][0]) if words else -1
    return start >= 0 and all(word[0] == ascii_lowercase[(start + i) % 26] for i, word in enumerate(words))


def _starts_with_verb(text: str) -> bool:
    word = next(iter(tokens(text[:1000])), "").lower()
    if word.endswith("ing") and len(word) > 5:
        return word not in NOT_VERBS
    stems = [word.removesuffix(ending) for ending in ("s", "es", "d", "ed") if word.endswith(ending)]
    stems += [stem[:-1] + "y" for stem in stems if stem.endswith("i")]  # tries
    stems += [stem[:-1] for stem in stems if stem[-2:-1] == stem[-1:]]  # planned
    return not VERBS.isdisjoint([word, *stems])


def _alternates_syllables(text: str) -> bool:
    try:
        from syllapy import count as syllables
    except ImportError as error:
        raise not_installed("The number of syllables", "instructions") from error

    return _neighbors(lambda one, other: one % 2 != other % 2, map(syllables, _plain(text)))


def _links(sentence: str, next_sentence: str) -> bool:
    last, first = sentence.rstrip(_ENDS).split()[-1:], next_sentence.lstrip(_ENDS).split()[:1]
    return bool(last) and bool(first) and last[0].lower() == first[0].lower()


def _returns(paragraph: str) -> bool:
    words = paragraph.strip().lower().strip(_ENDS).split()
    return not words or words[0] == words[-1]


def _word_in_sentence(text: str, keyword: str, n: int, m: int) -> bool:
    nth = sentences(text)[n - 1 : n]
    words = [token for token in tokens(nth[0] if nth else "") if any(map(str.isalnum, token))]
    return [word.lower() for word in words[m - 1 : m]] == [keyword.lower()]


def _second_words(text: str, keyword: str) -> bool:
    words = [token.lower() for token in tokens(text)]
    last = -3 if words[-1:] and words[-1] in punctuation else -2
    return len(words) >= -last and words[1] == words[last] == keyword.lower()


# sentence:


def _alliterative(sentence: str) -> int:
    """Words beside one that begins alike: of two pairs that share a word, three."""
    words = [word for word in (word.lstrip(_ENDS) for word in sentence.lower().split()) if word]
    alike = [one[0] == other[0] for one, other in pairwise(words)]
    return sum(alike) + sum(1 for is_alike, _ in groupby(alike) if is_alike)


def _keyword_in_sentence(text: str, word: str, N: int) -> bool:
    return any(re.search(rf"\b{re.escape(word)}\b", sentence, re.IGNORECASE) for sentence in sentences(text)[N - 1 : N])


# format:


def _nests_brackets(text: str, levels: int = 5) -> bool:
    closing, opened, deepest = {")": "(", "]": "[", "}": "{"}, [], 0
    for character in text:
        if character in "([{":
            opened.append(character)
            deepest = max(deepest, len(opened))
        elif character in closing:
            if opened[-1:] != [closing[character]]:
                opened, deepest = [], 0
                continue
            opened.pop()
            if deepest >= levels:
                return True
    return False


def _nests_quotes(text: str, levels: int = 3) -> bool:
    opened, deepest = [], 0
    for character in text:
        if opened[-1:] == [character]:
            opened.pop()
            if deepest - len(opened) >= levels:
                return True
        elif character in "\"'":
            opened.append(character)
            deepest = max(deepest, len(opened))
    return False


def _is_option(text: str, options: str) -> bool:
    separator = next((each for each in ("/", "or") if each in options), ",")
    choices = [option.strip() for option in options.split(separator)]
    if re.match(r"\W*a\W*b\W*c\W*", options, re.IGNORECASE):  # letters to choose from: "a)" must be "a)"
        return text in choices
    return text.strip(_ENDS).lower() in [choice.strip(_ENDS).lower() for choice in choices]


def _one_word_a_line(text: str) -> bool:
    text = text.translate(_NO_PUNCTUATION).strip()
    return sum(map(bool, text.split("\n"))) == len(text.split())


def _ends_in_emoji(text: str) -> bool:
    try:
        from emoji import is_emoji
    except ImportError as error:
        raise not_installed("The list of emoji", "instructions") from error

    parts = [sentence.translate(_NO_PUNCTUATION).strip() for sentence in sentences(text)]
    follows = [*(part[:1] for part in parts[1:]), ""]  # an emoji after the period begins the next part
    return all(part and any(map(is_emoji, part[-2:] + start)) for part, start in zip(parts, follows, strict=True))


def _stairs(text: str) -> bool:
    lines: list[str] = []
    skipped = False
    for line in text.split("\n"):
        skipped = not line.strip() and not skipped  # there, the second of two empty lines counts as a line
        lines += [] if skipped else [line]
    return _neighbors(lambda one, other: one < other, (len(line) - len(line.lstrip(" ")) for line in lines))


def _explains_quotes(text: str) -> bool:
    text = "".join(text.replace("'\"'", "").split())
    return '""' not in text and not text.strip(digits + punctuation.replace('"', "")).endswith('"')


def _italic_thesis(text: str) -> bool:
    start = text.find("<i>") if "<i>" in text else text.find("<em>")
    text = text[start + 3 :] if start >= 0 else ""
    end = text.find("</i>") if "</i>" in text else text.find("</em>")
    return end >= 0 and bool(text[:end].strip()) and bool(text[end + 4 :].strip())


def _sentences_then_bullets(text: str) -> bool:
    count, bullets, is_prose = 0, 0, True
    for line in map(str.strip, text.split("\n")):
        if line.startswith("*"):
            bullets, is_prose = bullets + 1, False
        elif is_prose:  # up to the first empty line
            count, is_prose = count + len(sentences(line)), bool(line)
        else:
            return False
        if bullets and count < 2:
            return False
    return bullets >= 2


def _is_title(token: str) -> bool:
    """True for a word that is neither lowercase nor inverted, as "iPhone" is."""
    rest = token[1:]
    return not token[0].islower() or (bool(rest) and not rest.isupper() and not rest.islower())


# custom:, one prompt each


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _questions(text: str) -> bool:
    lengths = []
    for question in re.split(r"Question \d+[.|):;]?\s*", text):
        if question.strip():
            lines = question.strip().split("\n")
            is_option = [re.match(r"[A-Ea-e][.|)]\s*\w", line.strip()) is not None for line in lines]
            if sum(is_option) != 5:
                return False
            lengths.append(len(" ".join(line.strip() for line in lines[: is_option.index(True)]).strip()))
    return text.startswith("Question") and len(lengths) == 4 and lengths == sorted(set(lengths))


def _countries(text: str) -> bool:
    lines = [line for line in (line.strip(_ENDS) for line in text.split("\n")) if line]
    start = next((i for i, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    names = list(map(_ascii, lines[start:]))
    return len(names) >= 52 and names == sorted(names, reverse=True)


def _table(text: str, delimiter: str = ",") -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return []


def _has_columns(text: str, names: Sequence[str], delimiter: str) -> bool:
    fields = re.split(delimiter, text.split("\n")[0].strip())
    return len(fields) == len(names) and all(f in (name, f'"{name}"') for f, name in zip(fields, names, strict=True))


def _city_table(text: str) -> bool:
    rows = _table(text)
    return len(rows) == 8 and rows[0] == ["ID", "Country", "City", "Year", "Count"] and {*map(len, rows)} == {5}


def _product_table(text: str) -> bool:
    rows = _table(text.replace('"', '"""'))  # keeps the quotation marks
    if len(rows) != 15 or not _has_columns(text, ("ProductID", "Category", "Brand", "Price", "Stock"), r",[ \t]*"):
        return False
    for row in rows[1:]:
        if len(row) != 5:
            return False
        for field in (field.split("\n")[0] for field in row):
            if field.startswith('"') and re.search(r"[^\w\s]", field[1 : max(1, field.rfind('"'))]):
                return True
    return False


def _quoted_table(text: str) -> bool:
    rows = _table(text.replace('"', '"""'), "\t")
    fields = [field.strip() for row in rows for field in row]
    has_columns = _has_columns(text, ("StudentID", "Subject", "Grade", "Semester", "Score"), "\t *")
    return has_columns and list(map(len, rows)) == [5] * 4 and all(field[:1] == field[-1:] == '"' for field in fields)


def _battle_dates(text: str) -> bool:
    for date in text.split(","):
        match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", date.strip())
        if not match:
            return False
        year, month, day = map(int, match.groups())
        last = 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
        if not 1769 <= year <= 1821 or month > 12 or day > last:
            return False
    return True


_KEYWORDS = {f"keyword{i}": argument.text for i in range(1, 6)}
IFBENCH: dict[str, Kind] = {
    "count:word_count_range": Kind(
        lambda text, min_words, max_words: min_words <= count_words(text) <= max_words,
        {"min_words": argument.count, "max_words": argument.count},
    ),
    "count:unique_word_count": counted(
        lambda text: len({word.strip(_ENDS) for word in text.lower().split()}), "N"
    ),
    "count:conjunctions": counted(
        lambda text: len({word for word in text.split() if word.strip(_ENDS).lower() in CONJUNCTIONS}), "small_n"
    ),
    "count:person_names": counted(lambda text: len(NAMES.intersection(_WORD.findall(text))), "N"),
    "count:numbers": Kind(
        lambda text, N: len(re.findall(r"\d+", text.translate(_NO_PUNCTUATION))) == N, {"N": argument.count}
    ),
    "count:punctuation": Kind(_has_punctuation),
    "count:pronouns": counted(
        lambda text: sum(token in PRONOUNS for token in tokens(text.replace("/", " ").lower())), "N"
    ),
    "count:words_japanese": Kind(
        lambda text, N: all(map(_is_japanese_or_free, text.split()[N - 1 :: N])), {"N": argument.ordinal}
    ),
    "count:keywords_multiple": Kind(_repeats_keywords, _KEYWORDS),
    "ratio:stop_words": Kind(_few_stop_words, {"percentage": argument.count}),
    "ratio:sentence_type": Kind(lambda text: (marks := _sentence_marks(text))[0] == 2 * marks[1]),
    "ratio:sentence_balance": Kind(lambda text: len({*_sentence_marks(text)}) == 1),
    "ratio:overlap": Kind(_overlaps, {"reference_text": argument.verbatim, "percentage": argument.count}),
    "ratio:sentence_words": Kind(_equally_long),
    "words:alphabet": Kind(_loops_alphabet),
    "words:vowel": Kind(lambda text: "\n" not in text.strip() and len(set("aeiou").intersection(text.lower())) <= 3),
    "words:consonants": Kind(
        lambda text: all(re.search("[b-df-hj-np-tv-z]{2}", word) for word in text.lower().split())
    ),
    "words:palindrome": Kind(
        lambda text: sum(len(word) >= 5 and word == word[::-1] for word in _plain(text)) >= 10
    ),
    "words:prime_lengths": Kind(lambda text: _PRIMES.issuperset(map(len, _plain(text)))),
    "words:start_verb": Kind(_starts_with_verb),
    "words:repeats": Kind(
        lambda text, small_n: max(Counter(_plain(text)).values(), default=0) <= small_n, {"small_n": argument.count}
    ),
    "words:odd_even_syllables": Kind(_alternates_syllables),
    "words:last_first": Kind(lambda text: _neighbors(_links, sentences(text))),
    "words:paragraph_last_first": Kind(lambda text: all(map(_returns, text.split("\n")))),
    "words:no_consecutive": Kind(lambda text: _neighbors(lambda one, other: one[0] != other[0], _plain(text))),
    "words:keywords_specific_position": Kind(
        _word_in_sentence, {"keyword": argument.text, "n": argument.ordinal, "m": argument.ordinal}
    ),
    "words:words_position": Kind(_second_words, {"keyword": argument.text}),
    "sentence:alliteration_increment": Kind(
        lambda text: _neighbors(lambda one, other: one < other, map(_alliterative, sentences(text)))
    ),
    "sentence:keyword": Kind(_keyword_in_sentence, {"word": argument.text, "N": argument.ordinal}),
    "sentence:increment": Kind(
        lambda text, small_n: _neighbors(
            lambda one, other: other == one + small_n, (len(_plain(sentence)) for sentence in sentences(text))
        ),
        {"small_n": argument.count},
    ),
    "format:parentheses": Kind(_nests_brackets),
    "format:quotes": Kind(_nests_quotes),
    "format:options": Kind(_is_option, {"options": argument.text}),
    "format:newline": Kind(_one_word_a_line),
    "format:emoji": Kind(_ends_in_emoji),
    "format:line_indent": Kind(_stairs),
    "format:quote_unquote": Kind(_explains_quotes),
    "format:list": Kind(lambda text, sep: text.count(sep) >= 2, {"sep": argument.text}),
    "format:thesis": Kind(_italic_thesis),
    "format:sub-bullets": Kind(lambda text: all("-" in bullet for bullet in text.split("*")[1:])),
    "format:no_bullets_bullets": Kind(_sentences_then_bullets),
    "format:title_case": Kind(lambda text: all(map(_is_title, tokens(text)))),
    "format:output_template": Kind(
        lambda text: all(part in text for part in ("My Answer:", "My Conclusion:", "Future Outlook:"))
    ),
    "format:no_whitespace": Kind(lambda text: not any(map(str.isspace, text))),
    "repeat:repeat_change": Kind(
        lambda text, prompt_to_repeat: text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:],
        {"prompt_to_repeat": argument.verbatim},
    ),
    "repeat:repeat_simple": Kind(lambda text: text.strip().lower() == _ONLY_THIS),
    "repeat:repeat_span": Kind(
        lambda text, prompt_to_repeat, n_start, n_end:
            text.strip().lower() == prompt_to_repeat[n_start : n_end + 1].strip().lower(),
        {"prompt_to_repeat": argument.verbatim, "n_start": argument.count, "n_end": argument.count},
    ),
    "custom:multiples": Kind(lambda text: re.findall(r"\d+", text) == [str(n) for n in range(14, 50, 7)]),
    "custom:mcq_count_length": Kind(_questions),
    "custom:reverse_newline": Kind(_countries),
    "custom:word_reverse": Kind(lambda text: "bald eagle" in " ".join(_plain(text)[::-1])),
    "custom:character_reverse": Kind(lambda text: "elgae dlab" in text.lower()),
    "custom:sentence_alphabet": Kind(
        lambda text: [sentence[0].lower() for sentence in sentences(text)] == list(ascii_lowercase)
    ),
    "custom:european_capitals_sort": Kind(
        lambda text: [name.strip() for name in _ascii(text).split(",") if name.strip()] == _LISTS["capitals"]
    ),
    "custom:csv_city": Kind(_city_table),
    "custom:csv_special_character": Kind(_product_table),
    "custom:csv_quotes": Kind(_quoted_table),
    "custom:date_format_list": Kind(_battle_dates),
}  # fmt: skip
