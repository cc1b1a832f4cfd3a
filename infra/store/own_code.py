"""Hash the user's own modules that a step runs, for its key: the step runs again when one of their files changes.

They are found by reading files, not by importing them: an environment of another author is imported only where it is
confined.
"""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.machinery import ModuleSpec
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from weakref import WeakKeyDictionary

from ratchet.data_curation.base.files import content_key
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import search_import_path

_hashed_as: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""The sha256 of each imported module's file when it was first hashed here."""
_OURS = Path(__file__).resolve().parents[1]
_LIBRARIES = ("site-packages", "dist-packages")


def own_code(paths: Iterable[str]) -> dict[str, str]:
    """The hash of each import path's module (`my_lab.losses` of `my_lab.losses:clipped`) and of all modules that it
    imports, by the module's name; nothing for Ratchet's own modules. A library that matters is `NAME==VERSION`.

    Covered are files outside of the standard library and of site-packages, and the module's own package wherever it is;
    imports in functions too, and `import_module` of a literal name. Not covered: computed names, and data files.
    Raises RatchetError for a file that has changed since this process imported it: the earlier code would run.
    """
    search_import_path()
    hashes: dict[str, str] = {}
    for path in paths:
        module, is_library, version = path.partition("==")
        module = module.partition(":")[0]
        if module not in hashes and module.partition(".")[0] != "ratchet":
            hashes[module] = version if is_library else content_key(_sources(module))
    return hashes


def _sources(root: str) -> list[tuple[str, str]]:
    """Name and sha256 of the module, of its packages, and of what they import."""
    own_package, sources, waiting = root.partition(".")[0], [], [root]
    specs: dict[str, ModuleSpec | None] = {}
    while waiting:
        for name in accumulate(waiting.pop().split("."), "{}.{}".format):
            if name in specs:
                continue
            parent, _, own_name = name.rpartition(".")
            specs[name] = spec = _find(name, specs.get(parent)) if specs.get(parent) or own_name == name else None
            if spec is None or spec.origin is None or not spec.has_location:
                continue
            if name.partition(".")[0] != own_package and not _is_users(Path(spec.origin)):
                specs[name] = None
                continue
            source = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]  # of a file or a zip
            sha256 = hashlib.sha256(source).hexdigest()
            if (module := sys.modules.get(name)) and _hashed_as.setdefault(module, sha256) != sha256:
                raise RatchetError(
                    f"{spec.origin} has changed since this command imported it, so the earlier code would run. Run it "
                    "again (in a notebook, restart the kernel): finished steps are reused."
                )
            sources.append((name, sha256))
            waiting += _imports(source, name if spec.submodule_search_locations else parent)
    return sources


def _find(name: str, package: ModuleSpec | None) -> ModuleSpec | None:
    """Location of a module as the import system finds it; nothing is imported."""
    if name in sys.stdlib_module_names or name == "ratchet":
        return None
    where = package.submodule_search_locations if package else None
    if package and where is None:
        return None
    return next((spec for finder in sys.meta_path if (spec := finder.find_spec(name, where))), None)


def _is_users(file: Path) -> bool:
    if any(part in _LIBRARIES for part in file.parts):
        return False
    file = file.resolve()
    if not file.is_relative_to(_OURS):
        return True
    return importlib.util.find_spec(f"ratchet.{Path(file.relative_to(_OURS).parts[0]).stem}") is None


@lru_cache(maxsize=4096)
def _imports(source: bytes, package: str) -> tuple[str, ...]:
    """Names that may be modules: `from a import b` gives a and a.b. Nothing for what is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    names: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names += [alias.name for alias in node.names]
            case ast.ImportFrom() if node.level <= package.count(".") + bool(package):
                above = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                names += [above, *(f"{above}.{alias.name}" for alias in node.names)]
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ) if not name.startswith("."):
                names.append(name)
    return tuple(names)
