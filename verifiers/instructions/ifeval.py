"""IFEval's 25 kinds of instructions, by their published ids.

Each is judged as in the published evaluation (google-research, `instruction_following_eval`), with the differences that
docs/reference/instructions.md lists. Texts and arguments are data: neither becomes a pattern, and time is linear in the
text.
"""

import json
import re

from ratchet.verifiers.instructions import arguments as argument
from ratchet.verifiers.instructions.kind import Kind, counted
from ratchet.verifiers.instructions.language import is_in_language, language_code
from ratchet.verifiers.instructions.words import count_capital_words, count_sentences, count_words

CHOICES = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
"""Answers that IFEval's prompts offer; its arguments do not include them."""


def _first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = text.split("\n\n")
    count = sum(bool(part.strip()) for part in parts)
    if count != num_paragraphs or not 0 < nth_paragraph <= count or not parts[nth_paragraph - 1].strip():
        return False
    first = parts[nth_paragraph - 1].split(maxsplit=1)[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", first, maxsplit=1)[0].lower() == first_word.lower()


def _paragraphs(text: str, num_paragraphs: int, divider: str = "***") -> bool:
    filled = [bool(part.strip()) for part in text.split(divider)]
    return all(filled[1:-1]) and sum(filled) == num_paragraphs


def _postscript(text: str, postscript_marker: str) -> bool:
    text, marker = text.lower(), postscript_marker.lower()
    pattern = {"p.p.s": r"p\.\s?p\.\s?s", "p.s.": r"p\.\s?s\."}.get(marker)
    return re.search(pattern, text) is not None if pattern else marker in text


def _bullets(text: str, num_bullets: int) -> bool:
    lines = [line.lstrip() for line in text.split("\n")]
    return num_bullets == sum(line[:1] == "-" or (line[:1] == "*" and line[1:2] not in ("", "*")) for line in lines)


def _highlights(text: str) -> int:
    single = sum(bool(highlight.strip("*").strip()) for highlight in re.findall(r"\*[^\n*]*\*", text))
    return single + sum(bool(highlight[2:-2].strip()) for highlight in re.findall(r"\*\*[^\n*]*\*\*", text))


def _json(text: str) -> bool:
    text = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(opening)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str) -> bool:
    spans = ((line, line.find("<<"), line.rfind(">>")) for line in text.split("\n"))
    return any(0 <= a < b - 2 and bool(line[a:b].lstrip("<").rstrip(">").strip()) for line, a, b in spans)


def _two_responses(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    responses = [part for part in parts if part]
    return all(parts[1:-1]) and len(responses) == 2 and responses[0] != responses[1]


IFEVAL: dict[str, Kind] = {
    "keywords:existence": Kind(
        lambda text, keywords: all(keyword.lower() in text.lower() for keyword in keywords),
        {"keywords": argument.texts},
    ),
    "keywords:frequency": counted(
        lambda text, keyword: text.lower().count(keyword.lower()), "frequency", "relation", keyword=argument.text
    ),
    "keywords:forbidden_words": Kind(
        lambda text, forbidden_words: not any(
            re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in forbidden_words
        ),
        {"forbidden_words": argument.texts},
    ),
    "keywords:letter_frequency": counted(
        lambda text, letter: text.lower().count(letter), "let_frequency", "let_relation", letter=argument.letter
    ),
    "language:response_language": Kind(is_in_language, {"language": lambda code: language_code(argument.text(code))}),
    "length_constraints:number_paragraphs": Kind(
        _paragraphs, {"num_paragraphs": argument.count}, {"divider": argument.text}
    ),
    "length_constraints:number_words": counted(count_words, "num_words", "relation"),
    "length_constraints:number_sentences": counted(count_sentences, "num_sentences", "relation"),
    "length_constraints:nth_paragraph_first_word": Kind(
        _first_word, {"num_paragraphs": argument.count, "nth_paragraph": argument.count, "first_word": argument.text}
    ),
    "detectable_content:number_placeholders": counted(  # `[...]` on one line
        lambda text: sum("[" in part for line in text.split("\n") for part in line.split("]")[:-1]), "num_placeholders"
    ),
    "detectable_content:postscript": Kind(_postscript, {"postscript_marker": argument.text}),
    "detectable_format:number_bullet_lists": Kind(_bullets, {"num_bullets": argument.count}),
    "detectable_format:constrained_response": Kind(
        lambda text, options=CHOICES: any(option in text for option in options), {}, {"options": argument.texts}
    ),
    "detectable_format:number_highlighted_sections": counted(_highlights, "num_highlights"),
    "detectable_format:multiple_sections": counted(
        lambda text, section_spliter: len(re.findall(rf"{re.escape(section_spliter)}\s?\d", text)),
        "num_sections", section_spliter=argument.text,
    ),
    "detectable_format:json_format": Kind(_json),
    "detectable_format:title": Kind(_title),
    "combination:two_responses": Kind(_two_responses),
    "combination:repeat_prompt": Kind(
        lambda text, prompt_to_repeat: text.strip().lower().startswith(prompt_to_repeat.lower()),
        {"prompt_to_repeat": argument.text},
    ),
    "startend:end_checker": Kind(
        lambda text, end_phrase: text.strip().strip('"').lower().endswith(end_phrase.lower()),
        {"end_phrase": argument.text},
    ),
    "startend:quotation": Kind(lambda text: re.fullmatch(r'\s*".*"\s*', text, re.DOTALL) is not None),
    "change_case:english_capital": Kind(lambda text: text.isupper() and is_in_language(text, "en")),
    "change_case:english_lowercase": Kind(lambda text: text.islower() and is_in_language(text, "en")),
    "change_case:capital_word_frequency": counted(count_capital_words, "capital_frequency", "capital_relation"),
    "punctuation:no_comma": Kind(lambda text: "," not in text),
}  # fmt: skip
