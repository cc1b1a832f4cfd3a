"""Published layouts of code problems: one function each."""

import json
import re
from collections.abc import Collection
from typing import Any

from ratchet.data_curation.readers.code_tests import (
    TestSuite,
    decode_private,
    from_assertions,
    from_published,
    from_script,
    from_specification,
    from_tables,
)
from ratchet.data_curation.readers.columns import PYTHON_NAMES, RawRow, parse_structure
from ratchet.data_curation.readers.plain_formats import CODE_COLUMNS, Columns, plain
from ratchet.data_curation.readers.raw_files import Malformed, Row

PYTHON_3 = (3, "PYTHON3")  # in CodeContests
_PARALLEL = ("inputs", "outputs"), ("test_inputs", "test_outputs"), ("test_input", "test_output")


def leetcode(row: RawRow) -> Row:
    """Read LeetCodeDataset. Its `prompt` column has the imports and node classes that solutions need. LeetCode accepts
    floats within 1e-5, absolute."""
    meta = row.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    entry_point, prelude = row.take_text("entry_point"), row.take("prompt")
    row.setdefault("comparison", {"mode": "leetcode"})
    row.pop("input_output", None)  # the assertions of `test` once more, as text
    suite = from_assertions(row.take_text("test"), entry_point, prelude)
    statement = row.take("problem_description") or meta.pop("question_title", None)
    query = row.take_text("query") if row.get("query") else None
    if not (statement or query):
        raise Malformed("query", "missing or empty")
    slug = row.get("task_id")
    return tested(row, suite) | {
        "prompt": statement or query,
        "starter_code": row.take("starter_code") or meta.pop("lang_code", None),
        "golden_solutions": [row.take_text("completion")],
        "source_url": f"https://leetcode.com/problems/{slug}/" if slug else None,
        "released": row.take_date("estimated_date"),
    }


def humaneval(row: RawRow) -> Row:
    """Read HumanEval, HumanEval+, BigCodeBench and ODEX: the statement ends in a function header, which the solution
    continues; functions before it may be used by the tests."""
    prompt = row.take_text("complete_prompt", "prompt")
    entry_point = row.take("entry_point") or next(reversed(re.findall(r"^def (\w+)", prompt, re.MULTILINE)), None)
    if not isinstance(entry_point, str):
        raise Malformed("entry_point", "missing, and there is no function in the prompt")
    test = row.pop("test") or ""
    if isinstance(test, list):
        test = "".join([row.take("test_start") or "", *test])
    suite = from_tables(test, entry_point) or from_assertions(test, entry_point, prompt)
    solution = row.take("canonical_solution")
    golden = [f"{prompt}{solution}{row.take('suffix') or ''}"] if solution else []
    asked = "\n\n".join(filter(None, (row.take("intent"), prompt)))
    return tested(row, suite) | {"prompt": asked, "starter_code": prompt, "golden_solutions": golden}


def codeeval_pro(row: RawRow) -> Row:
    """Read HumanEval Pro, MBPP Pro and BigCodeBench-Lite Pro: a problem, and a second one whose solution calls the
    first's."""
    first, second = row.take_text("raw_problem"), row.take_text("new_problem")
    solutions = row.take_text("raw_solution"), row.take_text("new_solution")
    return tested(row, from_script(row.take_text("test_code"))) | {
        "prompt": f"{first.rstrip()}\n\n{second}",
        "golden_solutions": [f"{first}{solutions[0]}\n\n{second}{solutions[1]}"],
    }


def mbpp(row: RawRow) -> Row:
    """Read MBPP, sanitized MBPP, and MBPP+. The statement does not name the function: the header is the solution's."""
    code = row.take_text("code")
    imports, setup = row.pop("test_imports", None) or [], row.pop("test_setup_code", None) or ""
    if re.fullmatch(r"(\s*(import|from) .*)*\s*", setup):  # needed by the solution too
        imports, setup = [*imports, setup], ""
    suite = from_script("\n".join(row.pop("test_list")), setup=setup, solution=code)
    plus = from_tables(row.pop("test", None) or "", suite.entry_point or "")
    suite = plus or suite
    suite.prelude = "\n".join(imports).strip()
    header = re.search(rf"^def {suite.entry_point}\(.*?:\s*$", code, re.MULTILINE | re.DOTALL)
    return tested(row, suite) | {
        "prompt": row.take_text("prompt", "text"),
        "starter_code": header[0].strip() if header else f"def {suite.entry_point}(",
        "golden_solutions": [code],
    }


def codeforces(row: RawRow) -> Row:
    """Read open-r1's Codeforces. If several outputs are right, a row may have a checker, a Python script."""
    if row.get("interaction_format"):
        raise Malformed("interaction_format", "an interactive problem, and the data set has no interactors")
    if row.get("input_mode") == "file":
        raise Malformed("input_mode", "its programs read and write files")
    if source := row.take("generated_checker"):
        row["checker"] = {"protocol": "script", "source": source}
    if not row.get("official_tests") or row.get("official_tests_complete") is False:
        raise Malformed("official_tests", "missing or incomplete")
    cases = row.pop("official_tests")
    parts = [row.take_text("description")]
    for title, name in (("Input", "input_format"), ("Output", "output_format"), ("Note", "note")):
        if text := row.take(name):
            parts.append(f"{title}\n\n{text}")
    examples = row.pop("examples", None) or []
    parts += [f"Example\n\nInput:\n{each['input']}\n\nOutput:\n{each['output']}" for each in examples]
    started, contest, index = row.get("contest_start"), row.get("contest_id"), row.get("index")
    row.pop("editorial", None)
    return tested(row, from_specification(cases)) | {
        "prompt": "\n\n".join(parts),
        "source_url": f"https://codeforces.com/contest/{contest}/problem/{index}" if contest and index else None,
        "released": RawRow(released=started).take_date("released") if started else None,
        "time_limit_s": row.take_seconds("time_limit"),
        "memory_limit_mb": row.take_megabytes("memory_limit"),
    }


def code_contests(row: RawRow) -> Row:
    """Read DeepMind's CodeContests: three groups of tests, solutions with their languages."""
    suite = TestSuite()
    for group in ("public_tests", "private_tests", "generated_tests"):
        cases = _columns(row, group, "input", "output")
        suite.tests += from_specification({"inputs": cases[0], "outputs": cases[1]}).tests
    languages, solutions = _columns(row, "solutions", "language", "solution")
    row.pop("incorrect_solutions", None)  # many, long and not needed
    contest = row.get("cf_contest_id")
    return tested(row, suite) | {
        "prompt": row.take_text("description"),
        "golden_solutions": [s for name, s in zip(languages, solutions, strict=True) if name in PYTHON_3],
        "source_url": f"https://codeforces.com/contest/{contest}/problem/{row.get('cf_index')}" if contest else None,
        "time_limit_s": row.take_seconds("time_limit"),
        "memory_limit_mb": row.take_megabytes("memory_limit_bytes"),
    }


_STARRED = """
    string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json
    builtins typing"""
_LIVECODEBENCH = (
    "".join(f"from {module} import *\n" for module in _STARRED.split())
    + """\
import string, re, datetime, collections, heapq, bisect, copy, math, random, statistics, itertools, functools
import operator, io, sys, json
sys.setrecursionlimit(50000)
"""
)
"""Code that LiveCodeBench's own executor puts before every program, including those that read standard input."""


def livecodebench(row: RawRow) -> Row:
    """Read LiveCodeBench's code generation: public and private tests; the function's name is in the metadata."""
    row["prelude"], row["comparison"] = _LIVECODEBENCH, {"mode": "livecodebench"}
    row["tests"] = parse_structure(row.take_text("public_test_cases"), "public_test_cases")
    if private := row.pop("private_test_cases", None):
        row["tests"] += decode_private(private)
    return plain_code(row, {"prompt": "question_content"}) | {"source_url": _contest_url(row)}


def classeval(row: RawRow) -> Row:
    """Read ClassEval: a class to complete, and classes of `unittest`; imports are in a column of their own."""
    row["prelude"] = "\n".join(row.take_structure("import_statement") or [])
    fields = {"prompt": "skeleton", "entry_point": "class_name", "golden_solutions": "solution_code"}
    return plain_code(row, fields)


def plain_code(row: RawRow, columns: Columns) -> Row:
    """Read DeepCoder and its relatives, TACO and APPS: a statement, tests in any shape, optional solutions and
    header."""
    metadata = None if "metadata" in columns.values() else row.take_structure("metadata")
    problem = plain(row, CODE_COLUMNS, columns)
    if isinstance(metadata, dict):
        problem["entry_point"] = problem["entry_point"] or metadata.get("func_name")
        row |= {key: value for key, value in metadata.items() if key not in row}
    _note_function(row, problem)
    if problem["tests"] is None and (lists := parallel_tests(row.keys())):
        problem["tests"] = {name: row.take_structure(column) for name, column in zip(_PARALLEL[0], lists, strict=True)}
    suite = from_published(problem["tests"], problem["entry_point"])
    return problem | tested(row, suite, problem["starter_code"], *problem["golden_solutions"][:1])


def parallel_tests(columns: Collection[str]) -> tuple[str, str] | None:
    """The two columns with lists of inputs and outputs if a file has them (rStar-Coder, CURE's CodeContests)."""
    return next((pair for pair in _PARALLEL if pair[0] in columns and pair[1] in columns), None)


def _note_function(row: RawRow, problem: Row) -> None:
    """KodCode: `test_info` declares the function, which the statement may not name."""
    facts = row.take_structure("test_info") if isinstance(row.get("test_info"), str | list) else None
    facts = facts[0] if isinstance(facts, list) and len(facts) == 1 else None
    if isinstance(facts, dict):
        problem["entry_point"] = problem["entry_point"] or facts.get("function_name")
        problem["starter_code"] = problem["starter_code"] or facts.get("function_declaration")


def code_contests_plus(row: RawRow) -> Row:
    """Read CodeContests+: `test_cases`, and submissions with their languages. Its checkers need testlib's header, which
    it does not have; they stay in the metadata, as text."""
    row.pop("incorrect_submissions", None)  # many, long and not needed
    return _joined(row, "correct_submissions", {}, "take a configuration of CodeContests+ with tests, such as 1x")


def hardtests(row: RawRow) -> Row:
    """Read HardTests: statements, and the test cases of its other data set, joined by `pid`."""
    elsewhere = "HardTests has them in another data set, hardtests_tests; join it by pid"
    return _joined(row, "solutions", {"prompt": "question_content"}, elsewhere)


def _joined(row: RawRow, solutions: str, columns: Columns, elsewhere: str) -> Row:
    """Problems whose tests are published apart, with solutions in several languages."""
    if not (row.get("test_cases") or row.get("tests")):
        raise Malformed("test_cases", f"missing: {elsewhere}")
    languages, programs = _columns(row, solutions, "language", "code")
    golden = [p for name, p in zip(languages, programs, strict=True) if str(name).casefold() in PYTHON_NAMES]
    return plain_code(row, columns) | {"golden_solutions": golden}


def _columns(row: RawRow, name: str, *fields: str) -> list[list[Any]]:
    """A struct of lists, or a list of structs, as parallel lists. Raises Malformed for different lengths."""
    group = row.take_structure(name) or {}
    if isinstance(group, list) and all(isinstance(item, dict) for item in group):
        group = {field: [item.get(field) for item in group] for field in fields}
    if not isinstance(group, dict):
        raise Malformed(name, f"{type(group).__name__} instead of {' and '.join(fields)}")
    lists = [group.get(field) or [] for field in fields]
    if len({len(values) for values in lists}) > 1:
        raise Malformed(name, " but ".join(f"{len(v)} of {f}" for f, v in zip(fields, lists, strict=True)))
    return lists


def tested(row: RawRow, suite: TestSuite, *programs: str | None) -> Row:
    """The columns that tests fill; `prelude` and the number of omitted tests go into the metadata. A plain function
    name is a method if one of the `programs` has a class `Solution`."""
    has_solution = any("class Solution" in (text or "") for text in programs)
    if suite.entry_point and "." not in suite.entry_point and has_solution:
        suite.entry_point = f"Solution().{suite.entry_point}"
    if suite.left_out:
        row["tests_left_out"] = suite.left_out
    if suite.prelude is not None:
        row["prelude"] = suite.prelude
    tests = json.dumps(suite.tests, ensure_ascii=False) if suite.tests else None
    return {"tests": tests, "entry_point": suite.entry_point}


def _contest_url(row: RawRow) -> str | None:
    platform, question = row.get("platform"), str(row.get("question_id") or "")
    if platform == "leetcode" and row.get("question_title"):
        slug = re.sub(r"[^a-z0-9]+", "-", str(row["question_title"]).lower()).strip("-")
        return f"https://leetcode.com/problems/{slug}/"
    if platform == "atcoder" and row.get("contest_id"):
        return f"https://atcoder.jp/contests/{row['contest_id']}/tasks/{question}"
    if platform == "codeforces" and (match := re.fullmatch(r"(\d+)_(\w+)", question)):
        return f"https://codeforces.com/contest/{match[1]}/problem/{match[2]}"
    return None
