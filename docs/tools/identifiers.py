"""Variables and arguments are nouns: `python docs/tools/identifiers.py FOLDER…`, as `make lint` does.

A participle such as `found` says that something happened to a value, and not what the value is.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

REFUSED = {"found", "given", "known", "made", "used", "said", "got"}


def bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every variable, argument and field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def main(folders: list[str]) -> int:
    places = [
        f"{file}:{line}: {name!r} is no noun: say what the value is"
        for folder in folders
        for file in sorted(Path(folder).rglob("*.py"))
        for line, name in bound(ast.parse(file.read_text(encoding="utf-8")))
        if name in REFUSED
    ]
    print("\n".join(places) if places else f"names in {', '.join(folders)}: nouns")
    return bool(places)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
