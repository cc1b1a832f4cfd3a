"""Convert tests of code problems from their published shapes to ours (`verifiers.problem.CodeTest`).

Published tests are parallel lists of inputs and outputs, lists of cases, Python functions with assertions
(`verifiers.code.published_checks`), or classes of `unittest`.
"""

import ast
import base64
import io
import json
import pickle
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from ratchet.data_curation.readers.columns import parse_structure
from ratchet.data_curation.readers.pytest_tests import pytest_checks
from ratchet.data_curation.readers.raw_files import Malformed
from ratchet.verifiers.code.published_checks import NOT_LITERAL, call_arguments, plain, read_check


@dataclass
class TestSuite:
    """The tests of a problem: `tests` for the `tests` column; `entry_point` None means stdin/stdout; `left_out` counts
    unreadable tests; `prelude` is source that solutions and checks need."""

    __test__ = False  # not a pytest class
    tests: list[dict[str, Any]] = field(default_factory=list)
    entry_point: str | None = None
    left_out: int = 0
    prelude: str | None = None


def from_published(tests: Any, entry_point: str | None = None) -> TestSuite:
    """Read a script of assertions, a list of them, or a structure of cases; an empty value has no tests."""
    if not tests:
        return TestSuite(entry_point=entry_point)
    if isinstance(tests, list) and all(isinstance(one, str) for one in tests):
        tests = "\n".join(tests)
    return from_script(tests, entry_point) if isinstance(tests, str) else from_specification(tests, entry_point)


def from_specification(spec: Any, entry_point: str | None = None) -> TestSuite:
    """Read any published structure of tests.

    `{"inputs": [...], "outputs": [...], "fn_name"?}`; `{"test_code", "entry_point"}`; `{"functional"}`; or a list of
    `{"input", "output", "testtype"?, "fn_name"?}`. Raises Malformed when it is none of these.
    """
    if isinstance(spec, dict) and "test_code" in spec:
        entry_point = str(spec.get("entry_point") or entry_point)
        return from_assertions(str(spec["test_code"]), entry_point, spec.get("import_prefix"))
    if isinstance(spec, dict) and "functional" in spec:  # rllm: a check, called by its last line
        called = re.search(r"^check\((.+)\)\s*\Z", str(spec["functional"]), re.MULTILINE)
        return from_assertions(str(spec["functional"]), called[1] if called else str(entry_point))
    if isinstance(spec, dict) and "inputs" in spec and "outputs" in spec:
        inputs, outputs = spec["inputs"] or [], spec["outputs"] or []
        if isinstance(inputs, str) and isinstance(outputs, str):
            inputs, outputs = [inputs], [outputs]
        if not isinstance(inputs, list) or not isinstance(outputs, list):
            raise Malformed("tests", "inputs and outputs are no lists")
        if len(inputs) != len(outputs):
            raise Malformed("tests", f"{len(inputs)} inputs but {len(outputs)} outputs")
        entry_point = spec.get("fn_name") or entry_point
        if entry_point:
            return _calls(inputs, outputs, entry_point)
        known = [(i, o) for i, o in zip(inputs, outputs, strict=True) if o is not None]
        texts = [{"input": _lines(i), "output": _lines(o)} for i, o in known]
        return TestSuite(texts, left_out=len(inputs) - len(known))
    if isinstance(spec, list) and all(isinstance(case, dict) and "input" in case and "output" in case for case in spec):
        entry_point = next((case["fn_name"] for case in spec if case.get("fn_name")), entry_point)
        if entry_point and any("func" in str(case.get("testtype") or case.get("type") or "func") for case in spec):
            return _calls([case["input"] for case in spec], [case["output"] for case in spec], entry_point, texts=True)
        known = [case for case in spec if case["output"] is not None]
        kept = [{"arguments": case["arguments"]} if isinstance(case.get("arguments"), list) else {} for case in known]
        texts = [{"input": _lines(case["input"]), "output": _lines(case["output"])} for case in known]
        return TestSuite([text | more for text, more in zip(texts, kept, strict=True)], left_out=len(spec) - len(known))
    if isinstance(spec, list) and all(isinstance(case, dict) and case.keys() & {"call", "check"} for case in spec):
        return TestSuite(spec, entry_point)  # our own
    raise Malformed("tests", "not a known shape of tests")


def from_assertions(code: str, entry_point: str, prelude: str | None = None) -> TestSuite:
    """Read tests in a function `check(candidate)`, or outside of it if it is empty."""
    tests = _unit_tests(code) or _read(code)
    suite = TestSuite(tests, entry_point) if tests else from_script(code, entry_point)
    suite.prelude = prelude
    return suite


_UNIT_TEST = """{module}

def check(candidate):
    import unittest
    unittest.TestSuite([{case}({method!r})]).debug()"""


def _unit_tests(code: str) -> list[dict[str, Any]]:
    """A check for each test method of classes of `unittest`."""
    try:
        body = ast.parse(code).body if "TestCase" in code else []
    except NOT_LITERAL:
        return []
    cases = [s for s in body if isinstance(s, ast.ClassDef) and any("TestCase" in ast.unparse(b) for b in s.bases)]
    around = [s for s in body if s not in cases and not isinstance(s, ast.If | ast.Expr)]  # no `unittest.main()`
    return [
        {"check": _UNIT_TEST.format(module=ast.unparse(ast.Module([*around, s], [])), case=s.name, method=method.name)}
        for s in cases
        for method in s.body
        if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
    ]


def _read(code: str) -> list[dict[str, Any]]:
    try:
        return list(read_check(code))
    except ValueError as error:
        raise Malformed("test", str(error)) from None


def from_tables(code: str, entry_point: str) -> TestSuite | None:
    """Read EvalPlus's tests: literal lists `inputs` and `results` and a loop that compares them; None for other code. A
    case whose arguments JSON would change (a tuple) becomes a check; one with values that are not literals is
    omitted."""
    try:
        tables = {
            node.targets[0].id: node.value
            for node in ast.walk(ast.parse(code))
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        inputs, results = (_elements(tables[name]) for name in ("inputs", "results"))
    except (*NOT_LITERAL, KeyError):
        return None
    if len(inputs) != len(results):
        raise Malformed("test", f"{len(inputs)} inputs but {len(results)} results")
    suite = TestSuite(entry_point=entry_point)
    for arguments, result in zip(inputs, results, strict=True):
        try:
            values, expected = ast.literal_eval(arguments), ast.literal_eval(result)
            try:
                call = call_arguments(ast.Call(ast.Name("candidate"), _elements(arguments), []))
                suite.tests.append({"call": call, "output": plain(expected)})
            except (ValueError, KeyError):
                asserted = f"assert candidate(*{values!r}) == {expected!r}"
                suite.tests.append({"check": f"def check(candidate):\n    {asserted}"})
        except NOT_LITERAL:
            suite.left_out += 1
    return suite


def _elements(node: ast.expr) -> list[ast.expr]:
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        raise KeyError("not a literal list")
    return node.elts


def from_script(code: str, entry_point: str | None = None, setup: str = "", solution: str = "") -> TestSuite:
    """Read assertions outside of any function. They call `entry_point`, or a method of a variable set to `Solution()`,
    or the first function that they call but for those that compare, unless the `solution` defines such a one. `setup`
    may use classes of the solution."""
    if entry_point and (tests := _unit_tests(code)):
        return TestSuite(tests, entry_point)
    if not setup and "def test" in code and (found := pytest_checks(code, entry_point)):
        checks, entry_point, left_out = found
        return TestSuite(checks, entry_point, left_out)
    try:
        body = ast.parse(code).body
        ast.parse(setup)
    except NOT_LITERAL as error:
        raise Malformed("test", f"not Python ({error})") from None
    above = [s for s in body if isinstance(s, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)]
    comparers = _COMPARERS - {*re.findall(r"^def (\w+)", solution, re.MULTILINE)}
    names = {s.name for s in above if isinstance(s, ast.FunctionDef | ast.ClassDef)} | comparers
    named = {ast.unparse(s.targets[0]): ast.unparse(s.value) for s in body if isinstance(s, ast.Assign)}
    asserted = (n for s in body if isinstance(s, ast.Assert) for n in ast.walk(s))
    calls = [ast.unparse(node.func) for node in asserted if isinstance(node, ast.Call)]
    methods = [call for call in calls if named.get(call.partition(".")[0]) == "Solution()"]
    called = next((c for c in methods or calls if c not in names and (methods or c.isidentifier())), None)
    if called is None:
        raise Malformed("test", "no assertion that calls a function")
    if methods:
        entry_point = f"Solution().{called.partition('.')[2]}"
    elif called != "candidate" or not entry_point:
        entry_point = called
    aliases = (f"{called} = {entry_point}", f"{called.partition('.')[0]} = Solution()")
    kept = (s for s in body if s not in above and ast.unparse(s) not in aliases)
    lines = [f"    {line}" for s in kept for line in ast.unparse(_Renamed(called).visit(s)).splitlines()]
    helpers = [ast.unparse(s) for s in above if getattr(s, "name", "") != "check"]
    return TestSuite(_read("\n".join([*helpers, *setup.splitlines(), "def check(candidate):", *lines])), entry_point)


_COMPARERS = {"set", "sorted", "list", "tuple", "len", "abs", "round", "str", "float", "int", "sum", "min", "max"}


class _Renamed(ast.NodeTransformer):
    """Replaces calls of `name`, which may be a method, by calls of `candidate`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name("candidate", node.ctx) if node.id == self.name else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name("candidate") if ast.unparse(node) == self.name else self.generic_visit(node)


def decode_private(text: str) -> Any:
    """Decode LiveCodeBench's private tests: JSON, or base64 of zlib of a pickle of JSON text.

    The unpickler allows no globals, so that a file can contain plain values only.
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        value = _PlainUnpickler(io.BytesIO(zlib.decompress(base64.b64decode(text)))).load()
        return json.loads(value) if isinstance(value, str) else value
    except Exception as error:  # a hostile pickle can raise anything from inside the unpickler
        raise Malformed("private_test_cases", f"cannot be decoded ({type(error).__name__}: {error})") from None


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, and only plain values are allowed")


def _calls(inputs: list[Any], outputs: list[Any], entry_point: str, texts: bool = False) -> TestSuite:
    """Calls from lists of arguments, or from text: a JSON value per line (LiveCodeBench), or Python's `a = [1], b = 2`
    (LeetCodeDataset). With `texts`, outputs are text too; otherwise, where every output is a list of one (APPS, TACO),
    that list is unwrapped."""
    wrapped = not texts and all(isinstance(output, list) and len(output) == 1 for output in outputs)
    suite = TestSuite(entry_point=entry_point)
    for arguments, output in zip(inputs, outputs, strict=True):
        if not texts and not isinstance(arguments, str):
            call = {"args": arguments if isinstance(arguments, list) else [arguments], "kwargs": {}}
            suite.tests.append({"call": call, "output": output[0] if wrapped else output})
            continue
        try:
            output = plain(parse_structure(output, "output")) if isinstance(output, str) else output
            suite.tests.append({"call": _arguments(arguments), "output": output})
        except (*NOT_LITERAL, Malformed):
            suite.left_out += 1
    return suite


def _arguments(text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        return {"args": text if isinstance(text, list) else [text], "kwargs": {}}
    try:
        return {"args": [json.loads(line) for line in text.splitlines() if line.strip()], "kwargs": {}}
    except ValueError:
        return call_arguments(ast.parse(f"candidate({text})", mode="eval").body)


def _lines(value: Any) -> str:
    """Standard input or output; some rows publish it as a list of lines."""
    if isinstance(value, str | None):
        return value or ""
    if isinstance(value, bool | dict):
        raise Malformed("tests", f"{type(value).__name__} instead of text")
    return "\n".join(map(str, value)) + "\n" if isinstance(value, list) else str(value)
