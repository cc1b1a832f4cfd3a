"""Published sets of verifiable instructions. A row with an unknown instruction or wrong arguments is malformed, because
no response could be judged."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet.data_curation.readers.columns import RawRow, parse_structure
from ratchet.data_curation.readers.plain_formats import Columns, plain
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.data_curation.readers.templates import clean_text
from ratchet.verifiers.instructions.scoring import instruction, to_tests
from ratchet.verifiers.yaml_files import load_yaml

STATEMENTS = ("prompt", "messages")
_RLVR_KINDS, _RLVR_ALWAYS = load_yaml(Path(__file__).with_name("rlvr.yaml")).values()


def ifeval(row: RawRow) -> Row:
    """Read IFEval and sets in its layout (NeMo Gym's): `instruction_id_list` beside `kwargs`, a list of objects."""
    ids, kwargs = row.take_structure("instruction_id_list"), row.take_structure("kwargs")
    problem = {"prompt": row.take_statement(*STATEMENTS)}
    return problem | _tests([{"instruction_id": ids, "kwargs": kwargs}], "instruction_id_list")


def rlvr(row: RawRow) -> Row:
    """Read `ground_truth` as JSON: a function's name and arguments (RLVR-IFeval), or lists of ids and of arguments
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
    """Read a row whose columns the recipe maps: `tests` is a list of `{"id": ..., "kwargs": ...}`."""
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
    arguments = {name: truth.get(key) for name, key in names.items()}
    return [{"instruction_id": [kind], "kwargs": [arguments | _RLVR_ALWAYS.get(kind, {})]}]


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
