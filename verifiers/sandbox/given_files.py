"""What a checker finds in its process: its arguments, and files that exist nowhere but in memory."""

import builtins
import io
import os
import sys
from typing import Any

MESSAGE = "judgemessage.txt"
"""Where a checker in Kattis's format says why."""
_SHOWN_BYTES = 1000


class GivenFiles:
    """Files by name, which `open` finds in place of the file system's; `texts` have one character per byte. What a
    checker writes to others of its directory is kept as long as its process."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.content = {name: text.encode("latin-1") for name, text in texts.items()}

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


def exit_code(error: SystemExit) -> str:
    """As the report says it of a process that ended itself."""
    code = error.code if isinstance(error.code, int) else int(error.code is not None)
    return f"exit code {code & 0xFF}"
