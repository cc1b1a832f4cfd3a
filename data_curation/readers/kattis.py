"""Read problem packages in Kattis's format as rows: a folder with `problem.yaml`, `data/{sample,secret}`, optionally
`output_validators` (the checker, or the interactor) and `include` (files that programs are built with), and
`submissions/accepted`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ratchet.data_curation.readers.malformed import Malformed, Row
from ratchet.verifiers.code.comparison import KattisFlags
from ratchet.verifiers.code.program_files import MAX_BYTES, read_program_files
from ratchet.verifiers.yaml_files import load_yaml

MAX_TESTS_BYTES = 32 << 20
"""Most bytes of a package's tests; of larger ones the smallest tests are read, and the number of the others is
`tests_left_out`."""
_TESTED = ("sample", "secret")
"""The other folders of `data` are for tests of the package's validators."""
_STATEMENTS = ("problem_statement/problem", "statement/problem")
_LANGUAGES = {".py": "python", ".py3": "python", ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp"}
_INCLUDED = {"python": "python3", "cpp": "cpp"}
_STANDARD = "gnu++17"


def packages(folder: Path) -> list[Path]:
    """The packages below a folder, which may itself be one."""
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
    """Read one package. Raises Malformed if it cannot be judged here."""
    facts = _mapping(package / "problem.yaml")
    kinds = {*re.findall(r"[\w-]+", f"{facts.get('validation', '')} {facts.get('type', '')}")}
    if odd := {"multi-pass", "submit-answer"} & kinds:
        raise Malformed("problem.yaml", f"a problem of the type {odd.pop()}")
    if {"custom", "score"} <= kinds:  # exit code 42, and points in a file
        raise Malformed("problem.yaml", "its validator gives points, also for a part, and does not say what is all")
    inputs = [file for folder in _TESTED for file in package.glob(f"data/{folder}/**/*.in")]
    inputs.sort(key=lambda file: file.stat().st_size)
    flags = _flags(package, str(facts.get("validator_flags") or ""))
    tests, size, arguments = [], 0, []
    for file in inputs:
        size += file.stat().st_size
        if size <= max_bytes and file.with_suffix(".ans").exists():
            tests.append({"input": file.read_text(), "output": file.with_suffix(".ans").read_text()})
            if file.with_suffix(".args").exists():
                raise Malformed("data", f"{file.stem}.args: programs with arguments are not run here")
            arguments.append(_own_flags(file.with_suffix(".yaml"), flags[file.parent]))
    limits = facts["limits"] if isinstance(facts.get("limits"), dict) else {}
    files, accepted = _included(package), submissions(package, "accepted")
    language = _asked(files, [language for language, _ in accepted])
    row: Row = {
        "prompt": _statement(package),
        "tests": tests,
        "solutions": [text for of, text in accepted if of == language],
        **({"program_files": files} if files else {}),
        **({"answer_languages": [language], "cpp_standard": _STANDARD} if language == "cpp" else {}),
        "time_limit": limits.get("time_limit"),
        "memory_limit": limits.get("memory"),
        "name": package.name,
        **{column: str(facts[column]) for column in ("source", "license", "rights_owner") if facts.get(column)},
        **({"tests_left_out": len(inputs) - len(tests)} if len(tests) < len(inputs) else {}),
    }
    is_interactive = "interactive" in kinds
    checker = _checker(package, facts, kinds)
    common = arguments[0].split() if len({*arguments}) == 1 else []
    if checker:
        row["checker"] = checker | {"protocol": "kattis", "arguments": common, "interactive": is_interactive}
    elif is_interactive or "custom" in kinds:
        raise Malformed("output_validators", "missing, and the problem needs one")
    else:
        row["comparison"] = {"mode": "kattis", "arguments": common}
        for flags in {*arguments}:
            try:
                KattisFlags.read(flags.split())
            except ValueError as fault:
                raise Malformed("output_validator_flags", str(fault)) from None
    if not common and any(arguments):
        row["tests"] = [test | {"arguments": own.split()} for test, own in zip(tests, arguments, strict=True)]
    return row


def submissions(package: Path, verdict: str) -> list[tuple[str, str]]:
    """Single-file programs with their languages, shortest first, by the verdict that they should get."""
    files = [file for file in package.glob(f"submissions/{verdict}/*") if file.suffix in _LANGUAGES]
    return sorted(((_LANGUAGES[file.suffix], file.read_text()) for file in files), key=lambda one: len(one[1]))


def _included(package: Path) -> dict[str, dict[str, str]]:
    """The files that a problem's programs are built with, by language: the language's own and those for every
    language."""
    included: dict[str, dict[str, str]] = {}
    for language, name in _INCLUDED.items():
        files = _texts(package, "default") | _texts(package, name)
        if files := {file: text for file, text in files.items() if file.endswith(".py") == (language == "python")}:
            included[language] = files
    try:
        read_program_files({"program_files": included})
    except ValueError as fault:
        raise Malformed("include", str(fault)) from None
    return included


def _texts(package: Path, language: str) -> dict[str, str]:
    """The files of a folder of `include`, which may not link elsewhere."""
    folder, files = package / "include" / language, {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = f"{language}/{file.name}"
        if not file.is_file():
            raise Malformed("include", f"{name} is no file")
        if not file.resolve().is_relative_to(package.resolve()):
            raise Malformed("include", f"{name} is a link that leaves the package")
        if file.stat().st_size > MAX_BYTES:
            raise Malformed("include", f"{name} has {file.stat().st_size} bytes, more than {MAX_BYTES}")
        try:
            files[file.name] = file.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise Malformed("include", f"{name} is not in UTF-8 ({error})") from None
    return files


def _asked(files: Mapping[str, object], accepted: Sequence[str]) -> str:
    """The language that its programs are in: one that has files, if some have, and a golden solution; else Python."""
    possible = [language for language in ("python", "cpp") if not files or language in files]
    return next((language for language in possible if language in accepted), possible[0])


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


def _flags(package: Path, common: str) -> dict[Path, str]:
    """Arguments of the validator for the tests in each folder: the package's, and those of the nearest group that has
    some."""
    own: dict[Path, str] = {package: ""}
    for folder in sorted(path for path in (package / "data", *package.glob("data/**")) if path.is_dir()):
        legacy = _own_flags(folder / "testdata.yaml", own[folder.parent])
        own[folder] = _own_flags(folder / "test_group.yaml", legacy)
    return {folder: f"{common} {flags}".strip() for folder, flags in own.items()}


def _own_flags(file: Path, inherited: str) -> str:
    """The validator's arguments that a file of a group or a test gives: text in the legacy format, a list since
    2023-07."""
    facts = _mapping(file) if file.exists() else {}
    flags = facts.get("output_validator_flags", facts.get("output_validator_args"))
    if isinstance(flags, list):
        if odd := next((each for each in flags if len(str(each).split()) != 1), None):
            raise Malformed("output_validator_args", f"{odd!r} is not one word")
        return " ".join(map(str, flags))
    return inherited if flags is None else str(flags)


def _mapping(file: Path) -> dict[str, Any]:
    facts = load_yaml(file) or {}
    if not isinstance(facts, dict):
        raise Malformed(file.name, f"{type(facts).__name__} instead of names and values")
    return facts


def _checker(package: Path, facts: Mapping[str, Any], kinds: set[str]) -> dict[str, Any] | None:
    """The source of its validator, with the files beside it for C++. Packages of the legacy format ask for it; without
    that their outputs are compared, and what lies in the folder is for another judge or checks answer files."""
    is_legacy = str(facts.get("problem_format_version", "legacy")).startswith("legacy")
    if is_legacy and not {"custom", "interactive"} & kinds:
        return None
    folders = (package / name for name in ("output_validators", "output_validator"))
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    programs = [file for file in files if file.suffix in _LANGUAGES]
    if not files:
        return None
    if len(programs) != 1:
        raise Malformed("output_validators", f"{len(programs)} files in Python or C++ instead of one")
    language = _LANGUAGES[programs[0].suffix]
    headers = {file.name: file.read_text() for file in files if file.suffix in (".h", ".hpp")}
    return {"language": language, "source": programs[0].read_text(), **({"files": headers} if headers else {})}
