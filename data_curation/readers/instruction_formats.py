"""Published sets of verifiable instructions. A row with an unknown instruction or wrong arguments is malformed, because
no response could be judged."""

from collections.abc import Mapping
from typing import Any

from ratchet.data_curation.readers.columns import RawRow, parse_structure
from ratchet.data_curation.readers.plain_formats import Columns, plain
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.data_curation.readers.templates import clean_text
from ratchet.verifiers.instructions.scoring import instruction, to_tests

STATEMENTS = ("prompt", "messages")
# Functions of RLVR-IFeval (allenai/open-instruct): function, kind of IFEval, and the kind's arguments=its own.
_RLVR = """
verify_keywords keywords:existence keywords=keyword_list
verify_keyword_frequency keywords:frequency keyword=word frequency=N
validate_forbidden_words keywords:forbidden_words forbidden_words=forbidden_words
verify_letter_frequency keywords:letter_frequency letter=letter let_frequency=N
validate_response_language language:response_language language=language
verify_paragraph_count length_constraints:number_paragraphs num_paragraphs=N
validate_word_constraint length_constraints:number_words num_words=N relation=quantifier
verify_sentence_constraint length_constraints:number_sentences num_sentences=N relation=quantifier
validate_paragraphs length_constraints:nth_paragraph_first_word num_paragraphs=N nth_paragraph=i first_word=first_word
verify_postscript detectable_content:postscript postscript_marker=postscript_marker
validate_placeholders detectable_content:number_placeholders num_placeholders=N
verify_bullet_points detectable_format:number_bullet_lists num_bullets=N
validate_title detectable_format:title
validate_choice detectable_format:constrained_response options=options
validate_highlighted_sections detectable_format:number_highlighted_sections num_highlights=N
validate_sections detectable_format:multiple_sections num_sections=N section_spliter=section_splitter
validate_json_format detectable_format:json_format
validate_repeat_prompt combination:repeat_prompt prompt_to_repeat=original_prompt
validate_two_responses combination:two_responses
validate_uppercase change_case:english_capital
validate_lowercase change_case:english_lowercase
validate_frequency_capital_words change_case:capital_word_frequency capital_frequency=N capital_relation=quantifier
validate_end startend:end_checker end_phrase=end_phrase
validate_quotation startend:quotation
validate_no_commas punctuation:no_comma
"""
_RLVR_KINDS = {function: (kind, names) for function, kind, *names in map(str.split, _RLVR.strip().splitlines())}
_RLVR_MEANS = {
    "keywords:frequency": {"relation": "exactly"},
    "keywords:letter_frequency": {"let_relation": "exactly"},
    "length_constraints:number_paragraphs": {"divider": "* * *"},
}


def ifeval(row: RawRow) -> Row:
    """IFEval and sets in its layout (NeMo Gym's): `instruction_id_list` beside `kwargs`, a list of objects."""
    ids, kwargs = row.take_structure("instruction_id_list"), row.take_structure("kwargs")
    problem = {"prompt": row.take_statement(*STATEMENTS)}
    return problem | _tests([{"instruction_id": ids, "kwargs": kwargs}], "instruction_id_list")


def rlvr(row: RawRow) -> Row:
    """`ground_truth` as JSON: a function's name and arguments (RLVR-IFeval), or lists of ids and of arguments
    (IF-RLVR, `IF_multi_constraints_upto5`)."""
    truth = row.take("ground_truth")
    if isinstance(truth, list) and len(truth) == 1 and isinstance(truth[0], str):
        truth = truth[0]
    truth = parse_structure(truth, "ground_truth") if isinstance(truth, str) else truth
    if isinstance(truth, dict) and "func_name" in truth:
        truth = _from_function(truth)
    problem = {"prompt": row.take_statement(*STATEMENTS)}
    return problem | _tests(truth if isinstance(truth, list) else [truth], "ground_truth")


def plain_instructions(row: RawRow, columns: Columns) -> Row:
    """Where a recipe maps the columns: `tests` is a list of `{"id": ..., "kwargs": ...}`."""
    problem = plain(row, {"prompt": STATEMENTS}, columns)
    tests = problem.get("tests")
    instructions = [
        {"instruction_id": [t.get("id")], "kwargs": [t.get("kwargs")]} for t in tests or [] if isinstance(t, dict)
    ]
    return problem | _tests(instructions, columns.get("tests", "tests"))


def _from_function(truth: Mapping[str, Any]) -> list[Any]:
    if truth["func_name"] not in _RLVR_KINDS:
        raise Malformed("ground_truth", f"unknown function {truth['func_name']!r}")
    kind, names = _RLVR_KINDS[truth["func_name"]]
    arguments = {name: truth.get(key) for name, key in (pair.split("=") for pair in names)}
    return [{"instruction_id": [kind], "kwargs": [arguments | _RLVR_MEANS.get(kind, {})]}]


def _tests(truth: list[Any], field: str) -> Row:
    instructions = []
    for part in truth:
        ids, kwargs = (part.get("instruction_id"), part.get("kwargs")) if isinstance(part, dict) else (None, None)
        if not isinstance(ids, list) or not isinstance(kwargs, list) or len(ids) != len(kwargs):
            raise Malformed(field, "not a list of instructions with as many kwargs")
        for name, arguments in zip(ids, kwargs, strict=True):
            if isinstance(arguments, dict):  # cleaned like the statement
                arguments = {key: clean_text(v) if isinstance(v, str) else v for key, v in arguments.items()}
            try:
                instructions.append(instruction(name, arguments))
            except ValueError as error:
                raise Malformed(field, str(error)) from None
    if not instructions:
        raise Malformed(field, "no instructions")
    return {"tests": to_tests(instructions)}
