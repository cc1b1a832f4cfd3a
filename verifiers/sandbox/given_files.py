"""Files and modules that exist only in memory: a checker's arguments and files, and modules that a program imports."""

import builtins
import io
import os
import sys
import types
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from typing import Any

MESSAGE = "judgemessage.txt"
"""The file in which a checker in Kattis's format gives its reason."""
_SHOWN_BYTES = 1000


class GivenFiles:
    """Files by name, which `open` finds in place of the file system's. Other files of its directory that a checker
    writes are kept as long as its process."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content

    def install(self, arguments: list[str]) -> None:
        sys.argv = arguments
        there = io.open

        def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
            name = os.path.normpath(os.fspath(file)) if isinstance(file, str | os.PathLike) else ""
            if name not in self.content and (not name or os.path.isabs(name) or "r" in mode):
                return there(file, mode, buffering, *args, **kwargs)
            raw = _Kept(self.content, str(name), mode)
            return raw if "b" in mode else io.TextIOWrapper(raw, *args, **kwargs)

        builtins.open = io.open = opened  # type: ignore[assignment]

    def message(self) -> bytes:
        return self.content.get(MESSAGE, b"")[:_SHOWN_BYTES]


class _Kept(io.BytesIO):
    """One of the files. Raises FileNotFoundError as `open` does."""

    def __init__(self, content: dict[str, bytes], name: str, mode: str) -> None:
        if "r" in mode and name not in content:
            raise FileNotFoundError(2, "No such file or directory", name)
        super().__init__(b"" if "w" in mode else content.get(name, b""))
        self._content, self.name, self._is_written = content, name, mode.strip("bt") != "r"
        if "a" in mode:
            self.seek(0, io.SEEK_END)

    def close(self) -> None:
        if not self.closed and self._is_written:
            self._content[self.name] = self.getvalue()
        super().close()


STANDARD = {
    f"{folder}/{name}": number
    for folder, names in (("/dev", ("stdin", "stdout", "stderr")), ("/dev/fd", "012"), ("/proc/self/fd", "012"))
    for number, name in enumerate(names)
}
"""Standard streams by paths that lead through /proc, which is not there."""


def open_standard_paths() -> None:
    """Make `open` find the standard streams by their paths."""
    there, there_too = io.open, os.open

    def found(file: Any) -> Any:
        name = os.fspath(file) if isinstance(file, str | os.PathLike) else file
        return os.dup(STANDARD[name]) if isinstance(name, str) and name in STANDARD else file

    def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
        return there(found(file), *args, **kwargs)

    def opened_too(path: Any, *args: Any, **kwargs: Any) -> Any:
        descriptor = found(path)
        return descriptor if descriptor is not path else there_too(path, *args, **kwargs)

    builtins.open = io.open = opened  # type: ignore[assignment]
    os.open = opened_too


class GivenModules:
    """Finder and loader of modules by name, before those of the file system."""

    def __init__(self, texts: Mapping[str, str], names: Mapping[str, Any]) -> None:
        """Compile the modules' `texts`; `names` are their built-in names. Raises the errors of `compile`."""
        self._names = names
        self._codes = {n: compile(text, f"<{n}.py>", "exec", dont_inherit=True) for n, text in texts.items()}

    def install(self) -> None:
        """Make the modules importable for one run, and forget those of another."""
        for name in self._codes:
            sys.modules.pop(name, None)
        if self._codes and self not in sys.meta_path:
            sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self._codes else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Create the module in the usual way."""

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__builtins__"] = self._names
        exec(self._codes[module.__name__], module.__dict__)
