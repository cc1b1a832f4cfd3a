"""Files that a problem's programs are built with, in its metadata under `program_files`: a grader, a library, headers.

    {"cpp": {"grader.cpp": "...", "grader.h": "..."}, "python": {"grader.py": "..."}}

They are in the program's process, which can read and change all that they hold: no secret of theirs is kept from it.
"""

import ast
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

MOST_FILES = 40
"""Most files of one language, or of a checker."""
MAX_BYTES = 1 << 20
"""Most bytes of the files of one language together."""
NAME = re.compile(r"(?!\.)[\w.+-]{1,100}\Z", re.ASCII)
"""Names of files, without a folder."""
TAKEN = {"input", "answer", "output", "result"}
"""Names of files that checkers and compilers use themselves."""
_UNITS = (".cpp", ".cc", ".cxx", ".c++", ".C")


@dataclass(frozen=True)
class ProgramFiles:
    """The files that a problem's programs are built with, by language."""

    cpp: tuple[tuple[str, str], ...] = ()
    python: tuple[tuple[str, str], ...] = ()
    main: str = ""
    """The module in Python that is run, and imports the program; "" if the program is run, and may import modules."""
    program: str = ""
    """The name by which `main` imports it."""

    def units(self) -> dict[str, bytes]:
        """Translation units in C++ to be linked with the program."""
        return {name: text.encode() for name, text in self.cpp if name.endswith(_UNITS)}

    def headers(self) -> dict[str, bytes]:
        """Files that the program itself can include. Units are not among them: it would only define them again."""
        return {name: text.encode() for name, text in self.cpp if not name.endswith(_UNITS)}

    def run_in_python(self, source: str) -> tuple[str, dict[str, str]]:
        """The text that is run with this program, and the modules beside it."""
        modules = {name.removesuffix(".py"): text for name, text in self.python}
        if not self.main:
            return source, modules
        return modules[self.main], modules | {self.program: source}


NO_FILES = ProgramFiles()


def read_program_files(facts: Mapping[str, Any]) -> ProgramFiles:
    """Program files in a problem's metadata. Raises ValueError."""
    entry = facts.get("program_files")
    if entry is None:
        return NO_FILES
    if not isinstance(entry, dict) or not entry.keys() <= {"cpp", "python"}:
        raise ValueError("its program_files are not an object with cpp, python or both")
    for language, files in entry.items():
        if not isinstance(files, dict) or not all(isinstance(text, str) for text in chain(*files.items())):
            raise ValueError(f"its program_files for {language} are not texts by name")
        check_files(files, f"its program_files for {language}")
        size = sum(len(text.encode()) for text in files.values())
        if size > MAX_BYTES:
            raise ValueError(f"its program_files for {language} have {size} bytes, more than {MAX_BYTES}")
    cpp, python = (tuple(sorted((entry.get(language) or {}).items())) for language in ("cpp", "python"))
    return ProgramFiles(cpp, python, *_who_is_run(dict(python)))


def has_program_files(metadata: str | None) -> bool:
    """True if a problem's metadata has program files that can be used."""
    try:
        return read_program_files(json.loads(metadata or "{}")) != NO_FILES
    except (ValueError, AttributeError, RecursionError):
        return False


def check_files(files: Mapping[str, str], owner: str) -> None:
    """Raises ValueError for names that are not plain, and for too many files."""
    if odd := [name for name in files if not NAME.match(name) or name in TAKEN]:
        raise ValueError(f"{owner} has a file {odd[0][:80]!r}: files have plain names")
    if len(files) > MOST_FILES:
        raise ValueError(f"{owner} has {len(files)} files, more than {MOST_FILES}")


def _who_is_run(files: Mapping[str, str]) -> tuple[str, str]:
    """`main` and `program` of modules in Python: as Kattis does, their `main.py` is run, or the first by name, if they
    import a module that is not there, which is the program."""
    imported: set[str] = set()
    for name, text in files.items():
        if not name.removesuffix(".py").isidentifier() or not name.endswith(".py"):
            raise ValueError(f"its program_files for python have {name!r}, which is no module")
        try:
            imported |= _imported(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"its program file {name} is not Python ({error})") from None
    modules = sorted(name.removesuffix(".py") for name in files)
    missing = sorted(imported - {*modules} - sys.stdlib_module_names)
    if not missing:
        return "", ""
    if len(missing) > 1:
        raise ValueError(f"its program_files import {' and '.join(missing)}: which is the program?")
    return "main" if "main" in modules else modules[0], missing[0]


def _imported(tree: ast.Module) -> set[str]:
    """The first names of absolute imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
