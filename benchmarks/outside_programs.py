"""Does the judge say what plain Python says, of published programs that nobody looked at while it was made?

    python benchmarks/outside_programs.py --half report --mutants 2 cruxeval.jsonl ClassEval_data.json kattis/ ...

Each golden solution, each published wrong one, and `--mutants` copies of each golden one with a small fault are judged
by our judge and run by plain Python with the published tests: in a process of its own each, as another user, without a
network. For this it must be started by root, and `--python` be an interpreter that anyone may run. Problems are halved
by a hash of their name; the judge was fixed on the half `fix`. Where the two do not agree, it is said how.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import math
import os
import subprocess
import sysconfig
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from rich.progress import track

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.code_tests.mutation import mutants
from ratchet.data_curation.read import read_problems
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

LIMIT_S = 10
NOBODY = 65534
CONFINED = [
    "unshare", "--net", "--", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs",
    "--", "prlimit", f"--cpu={LIMIT_S}", f"--as={4 << 30}", f"--fsize={64 << 20}", "--nproc=256",
]  # fmt: skip
CHUNK = 64
MOST_TESTS = 16
"""Of a problem on standard input: the samples, and as many more at equal distances."""
UNITTEST = """
def check(candidate):
    import unittest
    result, classes = unittest.TestResult(), [{names}]
    for each in classes:
        unittest.defaultTestLoader.loadTestsFromTestCase(each).run(result)
    assert result.testsRun and result.wasSuccessful(), (result.failures + result.errors)[0][1]
"""


@dataclass(frozen=True)
class Case:
    """`right` and `wrong`: programs as their authors call them. `harness` is Python text that fails after a wrong one;
    "" where the tests are inputs and outputs."""

    name: str
    problem: Problem
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    harness: str

    @property
    def half(self) -> str:
        return "fix" if sha256(self.name.encode()).digest()[0] % 2 else "report"


def cases_of(path: Path) -> list[Case]:
    """Raises SystemExit when the layout is not known."""
    if path.is_dir():
        for sign, read in (("**/problem.yaml", _kattis), ("json_testcases", _quixbugs), ("exercises", _exercism)):
            if next(path.glob(sign), None):
                return list(read(path))
        raise SystemExit(f"{path}: neither problem packages nor QuixBugs nor Exercism")
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as file:
        text = file.read()
    rows = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines() if line]
    layouts = {
        "new_solution": _pro, "solution_code": _classeval, "assertion": _mbpp_plus, "test": _as_curated,
        "test_list": _as_curated, "output": _cruxeval,
    }  # fmt: skip
    read = next((read for column, read in layouts.items() if column in rows[0]), None)
    if read is None:
        raise SystemExit(f"{path}: none of the layouts with {', '.join(layouts)}")
    return list(_as_curated(rows, path)) if read is _as_curated else [read(row) for row in rows]


def _checked(name: str, entry_point: str, right: str, harness: str, check: str = "") -> Case:
    """`harness` are assertions as they are published; `check` the same in a function."""
    body = textwrap.indent(harness.strip(), "    ")
    tests = [{"check": check or f"def check(candidate):\n{body}"}]
    problem = Problem(name, "code", name, tests=json.dumps(tests), entry_point=entry_point)
    return Case(name, problem, (right,), (), harness)


def _as_curated(rows: list[dict[str, Any]], path: Path) -> Iterator[Case]:
    """The layouts of HumanEval, MBPP and LeetCodeDataset, read as curation reads them."""
    for problem in from_table(read_problems(path, "code").kept):
        row = rows[int(problem.source_id)]
        wrong: list[str] = []
        if "test_list" in row:
            right, harness = row["code"], "\n".join([row.get("test_setup_code", ""), *row["test_list"]])
        else:
            solution = row.get("canonical_solution", row.get("completion"))
            wrong = [row["prompt"] + row["buggy_solution"]] if row.get("buggy_solution") else []
            right = row["prompt"] + solution
            if not _compiles(right):  # PythonSaga's are not indented
                right = row["prompt"] + textwrap.indent(solution, "    ")
            harness = f"{row['test']}\ncheck({row['entry_point']})"
        yield Case(f"{path.name}/{row['task_id']}", problem, (right,), tuple(wrong), harness)


def _mbpp_plus(row: dict[str, Any]) -> Case:
    return _checked(row["task_id"], row["entry_point"], row["canonical_solution"], row["assertion"])


def _cruxeval(row: dict[str, Any]) -> Case:
    return _checked(row["id"], "f", row["code"], f"assert f({row['input']}) == {row['output']}")


def _pro(row: dict[str, Any]) -> Case:
    program = "\n".join(row[part] for part in ("raw_problem", "raw_solution", "new_problem", "new_solution"))
    functions = [node for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)]
    return _checked(f"pro/{functions[-1].name}/{row['id']}", functions[-1].name, program, row["test_code"])


def _classeval(row: dict[str, Any]) -> Case:
    program = "\n".join([*row["import_statement"], row["solution_code"]])
    return _unit_tested(row["task_id"], row["class_name"], program, row["test"])


def _unit_tested(name: str, entry_point: str, program: str, test: str) -> Case:
    """Classes of unittest as a check that runs them all."""
    classes = [node.name for node in ast.parse(test).body if isinstance(node, ast.ClassDef) and "Test" in node.name]
    check = test + UNITTEST.format(names=", ".join(classes))
    return _checked(name, entry_point, program, f"{check}\ncheck(None)", check)


def _exercism(path: Path) -> Iterator[Case]:
    """The test imports the program's names: they are there, in both."""
    for example in sorted(path.glob("exercises/practice/*/.meta/example.py")):
        [file] = example.parent.parent.glob("*_test.py")
        module, tree = file.name.removesuffix("_test.py"), ast.parse(file.read_text())
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == module]
        tree.body = [node for node in tree.body if node not in imports]
        names = [alias.name for node in imports for alias in node.names if alias.name != "*"]
        if names and all(alias.asname is None for node in imports for alias in node.names):
            yield _unit_tested(f"exercism/{module}", names[0], example.read_text(), ast.unparse(tree))


def _quixbugs(path: Path) -> Iterator[Case]:
    for file in sorted(path.glob("json_testcases/*.json")):
        calls = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
        calls = [(args if isinstance(args, list) else [args], output) for args, output in calls]
        tests = [{"call": {"args": args}, "output": output, "exact": True} for args, output in calls]
        lines = [f"_got = {file.stem}(*{args!r})\nassert _got == {output!r}, _got" for args, output in calls]
        problem = Problem(f"quixbugs/{file.stem}", "code", "", tests=json.dumps(tests), entry_point=file.stem)
        programs = [
            (path / f"{kind}/{file.stem}.py").read_text() for kind in ("correct_python_programs", "python_programs")
        ]
        yield Case(problem.problem_id, problem, (programs[0],), (programs[1],), "\n".join(lines))


def _kattis(path: Path) -> Iterator[Case]:
    """Problem packages with Python submissions, but for those with a validator of their own."""
    for file in sorted(path.rglob("problem.yaml")):
        folder, settings = file.parent, yaml.safe_load(file.read_text()) or {}
        if "custom" in str(settings.get("validation")) or (folder / "output_validators").exists():
            continue
        submissions = {kind: _programs(folder / "submissions" / kind) for kind in ("accepted", "wrong_answer")}
        answers = sorted((folder / "data/sample").rglob("*.ans"))
        more = [a for a in sorted((folder / "data/secret").rglob("*.ans"))]
        answers += more[:: max(1, -(-len(more) // MOST_TESTS))]
        pairs = [(answer.with_suffix(".in"), answer) for answer in answers if answer.with_suffix(".in").exists()]
        if not pairs or not submissions["accepted"]:
            continue
        tests = [{"input": given.read_text(), "output": answer.read_text()} for given, answer in pairs]
        flags = str(settings.get("validator_flags") or "").split()
        tolerance = next((float(flags[at + 1]) for at, flag in enumerate(flags) if "tolerance" in flag), None)
        metadata = json.dumps({"tolerance": tolerance}) if tolerance else None
        name = str(folder.relative_to(path))
        problem = Problem(name, "code", "", tests=json.dumps(tests), metadata=metadata)
        yield Case(name, problem, tuple(submissions["accepted"]), tuple(submissions["wrong_answer"]), "")


def _programs(folder: Path) -> list[str]:
    texts = [file.read_text() for file in sorted(folder.glob("*.py"))] if folder.is_dir() else []
    return [text for text in texts if _compiles(text)]  # some are Python 2


def _compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


# ------------------------------------------------------------------------------------ the two judges


def plain_python(case: Case, program: str, python: str) -> bool:
    """Whether the published tests pass."""
    with tempfile.TemporaryDirectory() as directory:
        os.chown(directory, NOBODY, NOBODY)
        path = Path(directory, "program.py")
        path.write_text(f"{program}\n\n{case.harness}\n", errors="surrogateescape")
        path.chmod(0o644)
        tests = case.problem.code_tests()
        if case.harness:
            return _run(path, python, "")[0]
        tolerance = json.loads(case.problem.metadata or "{}").get("tolerance")
        for test in tests:
            ended, output = _run(path, python, test.input or "")
            if not ended or not _same(output, str(test.output), tolerance):
                return False
        return True


def _run(path: Path, python: str, given: str) -> tuple[bool, str]:
    environment = {
        "PATH": "/usr/bin:/bin", "PYTHONPATH": sysconfig.get_path("purelib"), "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1",
    }  # fmt: skip
    try:
        done = subprocess.run(
            [*CONFINED, python, "-P", "-s", str(path)], input=given, capture_output=True, text=True, cwd=path.parent,
            env=environment, timeout=3 * LIMIT_S, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, ""
    return done.returncode == 0, done.stdout


def _same(output: str, expected: str, tolerance: float | None) -> bool:
    """As the problem packages' default validator compares: word by word, in any case."""
    ones, others = output.lower().split(), expected.lower().split()

    def close(one: str, other: str) -> bool:
        try:
            return math.isclose(float(one), float(other), rel_tol=tolerance or 0, abs_tol=tolerance or 0)
        except ValueError:
            return False

    return len(ones) == len(others) and all(
        one == other or (tolerance is not None and close(one, other)) for one, other in zip(ones, others, strict=True)
    )


def compare(cases: list[Case], faults: int, python: str, workers: int) -> tuple[Counter[str], list[str]]:
    """Counts of `golden`, `published wrong` and `mutants`, each with those that both pass, both refuse, or not."""
    programs = [(case, "golden", text) for case in cases for text in case.right]
    programs += [(case, "published wrong", text) for case in cases for text in case.wrong]
    programs += [(c, "mutants", mutant) for c in cases for text in c.right[:1] for mutant in mutants(text, faults)]
    counts, differ = Counter[str](), []
    with VerifierPool(workers) as pool, ThreadPoolExecutor(workers) as threads:
        for first in track(range(0, len(programs), CHUNK)):
            chunk = programs[first : first + CHUNK]
            plain = threads.map(lambda item: plain_python(item[0], item[2], python), chunk)
            verdicts = pool.run_programs([(case.problem, text) for case, _, text in chunk])
            for (case, kind, _), verdict, passes in zip(chunk, verdicts, plain, strict=True):
                counts[kind] += 1
                counts[f"{kind}, plain passes"] += passes
                counts[f"{kind}, judge passes"] += verdict.passed
                if verdict.passed != passes or verdict.outcome in (Outcome.UNPARSEABLE, Outcome.INFRA_ERROR):
                    counts[f"{kind}, not agreed"] += 1
                    differ.append(_said(case, kind, passes, verdict))
    return counts, differ


def _said(case: Case, kind: str, passes: bool, verdict: Verdict) -> str:
    said = f"{verdict.outcome.value}, {verdict.decided_by}: {verdict.detail[:300]!r}"
    return f"{case.name} ({kind}): plain Python {'passes' if passes else 'refuses'} it; {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--half", choices=["fix", "report"], required=True)
    parser.add_argument("--mutants", type=int, default=2, help="of each golden solution")
    parser.add_argument("--most", type=int, default=10**9, help="problems of each set at most, by their hash")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    for path in options.paths:
        cases = [case for case in cases_of(path) if case.half == options.half][: options.most]
        counts, differ = compare(cases, options.mutants, options.python, options.workers)
        print(f"{path.name}: {len(cases)} problems of the half {options.half}")
        for kind in ("golden", "published wrong", "mutants"):
            if counts[kind]:
                print(
                    f"  {kind:15} {counts[kind]:5}: plain Python passes {counts[kind + ', plain passes']}, the judge "
                    f"{counts[kind + ', judge passes']}; not agreed {counts[kind + ', not agreed']}"
                )
        print(*(f"    {line}" for line in differ), sep="\n", flush=True)


if __name__ == "__main__":
    main()
