"""Problem packages in Kattis's format, as rows: a folder with `problem.yaml`, `data/{sample,secret}`, perhaps
`output_validators` (the checker, or the interactor), and `submissions/accepted`."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from ratchet.data_curation.readers.malformed import Malformed, Row

MAX_TESTS_BYTES = 32 << 20
"""Of a package; of more tests the smallest are read, and the others are `tests_left_out`."""
_STATEMENTS = ("problem_statement/problem", "statement/problem")
_LANGUAGES = {".py": "python", ".py3": "python", ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp"}
_TOLERANCE = re.compile(r"float_(?:absolute_|relative_)?tolerance\s+(\S+)")


def packages(folder: Path) -> list[Path]:
    """The packages below a folder, which may be one itself."""
    return sorted(file.parent for file in folder.rglob("problem.yaml") if (file.parent / "data").is_dir())


def rows(folders: Sequence[Path]) -> Iterator[Row | Malformed]:
    """A row for each package: columns of the plain layout of code, and a `checker` (`verifiers.code.checkers`)."""
    for package in folders:
        try:
            yield read(package)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            yield Malformed("package", f"cannot be read ({error})")
        except Malformed as fault:
            yield fault


def read(package: Path, max_bytes: int = MAX_TESTS_BYTES) -> Row:
    """Raises Malformed for what cannot be judged here."""
    facts = yaml.safe_load((package / "problem.yaml").read_text()) or {}
    kinds = {*re.findall(r"[\w-]+", f"{facts.get('validation', '')} {facts.get('type', '')}")}
    if odd := {"multi-pass", "submit-answer"} & kinds:
        raise Malformed("problem.yaml", f"a problem of the type {odd.pop()}")
    if any((package / "include").glob("*")):
        raise Malformed("include", "its programs are built with files of the package")
    inputs = sorted(package.glob("data/*/**/*.in"), key=lambda file: file.stat().st_size)
    tests, size = [], 0
    for file in inputs:
        size += file.stat().st_size
        if size <= max_bytes and file.with_suffix(".ans").exists():
            tests.append({"input": file.read_text(), "output": file.with_suffix(".ans").read_text()})
    limits = facts.get("limits") or {}
    flags = _flags(package, str(facts.get("validator_flags") or ""))
    row: Row = {
        "prompt": _statement(package),
        "tests": tests,
        "solutions": [text for language, text in submissions(package, "accepted") if language == "python"],
        "time_limit": limits.get("time_limit"),
        "memory_limit": limits.get("memory"),
        "name": package.name,
        **{column: str(facts[column]) for column in ("source", "license", "rights_owner") if facts.get(column)},
        **({"tests_left_out": len(inputs) - len(tests)} if len(tests) < len(inputs) else {}),
    }
    is_interactive = "interactive" in kinds
    if checker := _checker(package):
        row["checker"] = checker | {"protocol": "kattis", "arguments": flags.split(), "interactive": is_interactive}
    elif is_interactive or "custom" in kinds:
        raise Malformed("output_validators", "missing, and the problem needs one")
    elif match := _TOLERANCE.search(flags):
        row["tolerance"] = float(match[1])
    return row


def submissions(package: Path, verdict: str) -> list[tuple[str, str]]:
    """Single-file programs with their languages, shortest first, by the verdict that they should get."""
    files = [file for file in package.glob(f"submissions/{verdict}/*") if file.suffix in _LANGUAGES]
    return sorted(((_LANGUAGES[file.suffix], file.read_text()) for file in files), key=lambda one: len(one[1]))


def _statement(package: Path) -> str:
    """The English statement, or another, as it is, and the samples."""
    files = [
        file for name in _STATEMENTS for file in sorted(package.glob(f"{name}*.*")) if file.suffix in (".tex", ".md")
    ]
    if not files:
        raise Malformed("problem_statement", "missing")
    parts = [next((file for file in files if ".en" in file.suffixes), files[0]).read_text()]
    for file in sorted(package.glob("data/sample/*.in")):
        answer = file.with_suffix(".ans")
        parts.append(f"Sample input\n\n{file.read_text()}")
        parts += [f"Sample output\n\n{answer.read_text()}"] if answer.exists() else []
    return "\n\n".join(parts)


def _flags(package: Path, flags: str) -> str:
    """Arguments of the validator, which groups of tests may set, if all groups agree."""
    distinct = {flags} if flags else set()
    for file in package.glob("data/**/testdata.yaml"):
        group: Any = yaml.safe_load(file.read_text())
        if isinstance(group, dict) and group.get("output_validator_flags"):
            distinct.add(str(group["output_validator_flags"]))
    if len(distinct) > 1:
        raise Malformed("output_validator_flags", f"groups of tests have different ones: {sorted(distinct)}")
    return distinct.pop() if distinct else ""


def _checker(package: Path) -> dict[str, Any] | None:
    """The source of its validator, with the files beside it for C++."""
    folders = [folder for name in ("output_validators", "output_validator") if (folder := package / name).is_dir()]
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    programs = [file for file in files if file.suffix in _LANGUAGES]
    if not files:
        return None
    if len(programs) != 1:
        raise Malformed("output_validators", f"{len(programs)} files in Python or C++ instead of one")
    language = _LANGUAGES[programs[0].suffix]
    headers = {file.name: file.read_text() for file in files if file.suffix in (".h", ".hpp")}
    return {"language": language, "source": programs[0].read_text(), **({"files": headers} if headers else {})}
