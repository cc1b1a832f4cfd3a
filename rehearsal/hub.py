"""A Hugging Face Hub that serves the repositories of a directory to the Hub's own client."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route


def hub(directory: Path) -> Starlette:
    """Serve repositories from `directory/datasets/OWNER/NAME` and `directory/models/OWNER/NAME`, each with one
    revision, whatever its name. Nothing outside the directory is served."""

    def of_repository(answer: Callable[[Path, str], Response], kind: str = "") -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            place = request.path_params
            root = (directory / (kind or place["kind"]) / place["owner"] / place["name"]).resolve()
            if not root.is_relative_to(directory.resolve()) or not root.is_dir():
                return _missing("RepoNotFound")
            return answer(root, _after_revision(place.get("rest", "")))

        return endpoint

    repository, file = "/api/{kind}/{owner}/{name}", "/{owner}/{name}/resolve/{rest:path}"
    return Starlette(
        routes=[
            Route("/", lambda _: Response()),
            Route(repository, of_repository(_facts)),
            Route(repository + "/revision/{rest:path}", of_repository(_facts)),
            Route(repository + "/tree/{rest:path}", of_repository(_tree)),
            Route("/datasets" + file, of_repository(_file, "datasets")),
            Route(file, of_repository(_file, "models")),
        ]
    )


def _after_revision(path: str) -> str:
    """A path behind its revision, which is one name or `refs/convert/parquet`."""
    names = path.split("/")
    return "/".join(names[3 if names[0] == "refs" else 1 :])


def _facts(root: Path, _: str) -> Response:
    siblings = [{"rfilename": file.relative_to(root).as_posix()} for file in _files(root)]
    name = "/".join(root.parts[-2:])
    return JSONResponse({"id": name, "sha": _commit(root), "private": False, "gated": False, "siblings": siblings})


def _tree(root: Path, path: str) -> Response:
    files = [file for file in _files(root) if file.is_relative_to(root / path)]
    if path and not files:
        return _missing("EntryNotFound")
    facts = [(file.relative_to(root).as_posix(), file.stat().st_size) for file in files]
    return JSONResponse([{"type": "file", "path": name, "size": size, "oid": name} for name, size in facts])


def _file(root: Path, path: str) -> Response:
    commit, file = {"X-Repo-Commit": _commit(root)}, (root / path).resolve()
    is_there = file.is_relative_to(root) and file.is_file()
    return FileResponse(file, headers=commit) if is_there else _missing("EntryNotFound", **commit)


def _missing(code: str, **headers: str) -> Response:
    return JSONResponse({"error": code}, 404, {"X-Error-Code": code, "X-Error-Message": code, **headers})


def _files(root: Path) -> list[Path]:
    return sorted(file for file in root.rglob("*") if file.is_file())


def _commit(root: Path) -> str:
    """A revision that changes with any file."""
    facts = [(str(file.relative_to(root)), file.stat().st_size, file.stat().st_mtime_ns) for file in _files(root)]
    return hashlib.sha1(str(facts).encode(), usedforsecurity=False).hexdigest()
