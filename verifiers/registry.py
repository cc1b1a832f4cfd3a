"""Members that a recipe chooses by name: domains, losses, advantages, engines. Shipped members have short names, as
have those that an installed package offers under an entry point group (`ratchet.domains`); others have an import path,
`my_lab.losses:clipped`, or `my_lab.losses` for a module's only member."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from ratchet.verifiers.errors import RatchetError, nearest

T = TypeVar("T")
IMPORT_PATH = "RATCHET_IMPORT_PATH"
"""Directories searched for import paths after all installed packages. An environment variable, so that child processes
find the same members."""


class Registry(Generic[T]):
    """Members of one kind, imported on first use. `shipped` maps names to `module:member`; so do the entry points of
    `group` in installed packages, whose names cannot be those of shipped members."""

    def __init__(
        self, kind: str, shipped: Mapping[str, str], is_member: Callable[[Any], bool], group: str = "",
        own: str = "your own by its import path, `module:member`",
    ) -> None:  # fmt: skip
        self.kind, self.shipped, self._is_member, self._group, self._own = kind, shipped, is_member, group, own
        self._loaded: dict[str, T] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.shipped or name in self.installed

    @cached_property
    def installed(self) -> Mapping[str, str]:
        """Import paths of members of other installed packages, by name."""
        found = entry_points(group=self._group) if self._group else ()
        return {point.name: point.value for point in found if point.name not in self.shipped}

    @property
    def names(self) -> list[str]:
        """Names of the shipped and the installed members."""
        return [*self.shipped, *self.installed]

    def get(self, name: str) -> T:
        """The member of this name or import path. Raises RatchetError that lists the known names."""
        if name not in self and "." not in name and ":" not in name:
            raise self.unknown(name)
        return self.load(self.path(name))

    def path(self, name: str) -> str:
        """The import path of this name."""
        return self.shipped.get(name) or self.installed.get(name, name)

    def load(self, path: str) -> T:
        """The member at this import path. Raises RatchetError as `get` does."""
        if path not in self._loaded:
            self._loaded[path] = self._load(path)
        return self._loaded[path]

    def _load(self, path: str) -> T:
        search_import_path()
        module_name, _, member = path.partition(":")
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # any error of the user's module
            raise RatchetError(
                f"The {self.kind} {path!r} cannot be imported: {type(error).__name__}: {error}. Searched: installed "
                f"packages, then {os.environ.get(IMPORT_PATH) or 'no other directory'}."
            ) from error
        if not member:
            return self._only_member(module_name, vars(module))
        if not self._is_member(getattr(module, member, None)):
            there = ", ".join(self._members(vars(module))) or "none"
            hint = _why_no_member(getattr(module, member, None)) or _uninstalled(module_name)
            raise RatchetError(f"{module_name} has no {self.kind} {member!r}; it has {there}.{hint}")
        return getattr(module, member)

    def _only_member(self, name: str, names: Mapping[str, Any]) -> T:
        own = [n for n in self._members(names) if getattr(names[n], "__module__", name) == name]
        if len(own) != 1:
            raise RatchetError(
                f"{name} holds {len(own)} members of kind {self.kind}{': ' + ', '.join(own) if own else ''}; "
                f"name one, as `{name}:{own[0] if own else 'MEMBER'}`.{_uninstalled(name)}"
            )
        return names[own[0]]

    def _members(self, names: Mapping[str, Any]) -> list[str]:
        return [name for name, value in names.items() if self._is_member(value)]

    def unknown(self, name: str, also: Iterable[str] = ()) -> RatchetError:
        """The error for a name that is neither shipped nor one of `also`."""
        names = [*self.names, *also]
        hint = nearest(name, names) or self._beside(name) or _uninstalled(name)
        known = "; ".join(filter(None, (", ".join(names), self._own)))
        return RatchetError(f"There is no {self.kind} {name!r}.{hint} Known: {known}.")

    def _beside(self, name: str) -> str:
        """`Did you mean …?` for the only member of the user's module of this name."""
        if not any((folder / f"{name}.py").is_file() for folder in _import_path()):
            return ""
        with suppress(RatchetError):
            return f" Did you mean '{name}:{getattr(self.load(name), '__name__', 'MEMBER')}'?"
        return ""


def concrete(kind: type) -> Callable[[Any], bool]:
    """True if a value is a class of this kind that can be instantiated."""
    return lambda value: inspect.isclass(value) and issubclass(value, kind) and not inspect.isabstract(value)


def takes_two(value: Any) -> bool:
    """True if this can be called with two arguments and is not a class."""
    if not callable(value) or inspect.isclass(value):
        return False
    try:
        inspect.signature(value).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def _why_no_member(value: Any) -> str:
    """What a value of the right name lacks; "" if there is no such value."""
    if value is None:
        return ""
    if missing := sorted(getattr(value, "__abstractmethods__", ())):
        return f" {value.__name__} is there, but does not define {', '.join(missing)}."
    if callable(value) and not inspect.isclass(value):
        return f" {value.__name__}{inspect.signature(value)} is there, but takes other arguments."
    return f" {value!r:.60} is there."


def _import_path() -> list[Path]:
    return [Path(directory) for directory in os.environ.get(IMPORT_PATH, "").split(os.pathsep) if directory]


def _uninstalled(name: str) -> str:
    """Advice to install a package that `ratchet new` wrote to a folder beside the recipe; "" if there is none."""
    projects = [folder / name for folder in _import_path() if (folder / name / "pyproject.toml").is_file()]
    return f" The package in {projects[0]} is not installed: `pip install -e {projects[0]}`." if projects else ""


def search_import_path() -> None:
    """Let this process find modules in the directories of `IMPORT_PATH`, after installed packages."""
    sys.path.extend(d for d in map(str, _import_path()) if d not in sys.path)


def add_to_import_path(directory: Path) -> None:
    """Search this directory for import paths, here and in child processes, after installed packages."""
    directories = os.environ.get(IMPORT_PATH, "").split(os.pathsep)
    if str(directory) not in directories:
        os.environ[IMPORT_PATH] = os.pathsep.join(filter(None, [*directories, str(directory)]))
