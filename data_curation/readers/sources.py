"""Find data files by their name in a recipe: a file, a directory, a glob, or a data set on the Hugging Face Hub.

    data/math_train.jsonl.gz                        a file
    data/numina/   data/numina/*.parquet            its data files, sorted
    data/MATH/train/                                JSON files of one problem each: the folder as one file
    data/nwerc/                                     problem packages in Kattis's format: the same
    org/name   org/name@revision                    on the Hub: the files of its train split, or all files
    hf://datasets/org/name@revision/data/part-*.parquet       exactly these

Files from the Hub are cached by its own library. `source_names` names the source of a file's rows.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from glob import glob
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.hub import hub_answers
from ratchet.data_curation.readers import kattis
from ratchet.data_curation.readers.raw_files import SUFFIXES, data_files, has_a_file_per_row, is_data
from ratchet.verifiers.errors import RatchetError

_ENDING = re.compile(rf"(?:{'|'.join(map(re.escape, SUFFIXES))})\Z")
_ON_HUB = re.compile(
    r"(?:hf://(?:datasets/)?)?(?P<repo>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[\w.%-]+))?(?:/(?P<files>[^@]+))?/?"
)
_IN_HUB_CACHE = re.compile(r"/datasets--([^/]+)--([^/]+)/snapshots/[^/]+/")
_TRAIN = re.compile(r"(?:^|[/_.-])train(?:ing)?(?:[/_.-]|$)", re.I)
_HELD_OUT = re.compile(r"(?:^|[/_.-])(?:test|valid(?:ation)?|val|dev|eval)(?:[/_.-]|$)", re.I)
_SHARD = re.compile(r"(.*\D)?(\d+)-of-(\d+)(.*)")


class NotFetched(RatchetError):
    """A name on the Hub whose files are neither cached nor available."""


def local_files(name: str | Path) -> list[Path]:
    """The files called `name`, sorted. A path that exists is never looked up on the Hub; a missing file is returned for
    its reader to report. Raises RatchetError when there are no files, NotFetched when the Hub does not provide them."""
    text = str(name)
    path = Path(text).expanduser()
    if path.exists():
        return _some(_files_of(path), text)
    if not text.startswith("hf://") and re.search(r"[*?\[]", text):
        matches = sorted(Path(match) for match in glob(str(path), recursive=True))
        return _some([*dict.fromkeys(file for match in matches for file in _files_of(match))], text)
    match = _ON_HUB.fullmatch(text)
    is_hub = text.startswith("hf://") or (
        match and not match["files"] and not text.startswith((".", "/", "~")) and not text.endswith(SUFFIXES)
    )
    if not is_hub:
        return [path]
    if match is None:
        raise RatchetError(f"{text}: not a name on the Hub. Use hf://datasets/ORG/NAME, or …/NAME/FILE.parquet.")
    revision = (match["revision"] or "main").replace("%2F", "/")  # refs%2Fconvert%2Fparquet
    return _fetched(text, match["repo"], revision, match["files"])


def _files_of(path: Path) -> list[Path]:
    """A file itself; the data files of a folder, or the folder where it is read as one file."""
    if not path.is_dir() or kattis.packages(path):
        return [path]
    files = data_files(path)
    return [path] if has_a_file_per_row(files) else files


def held_out_splits(name: str) -> list[Path]:
    """The files of a directory that are named after another split than its train split, which is there too."""
    folder = Path(name).expanduser()
    names = [str(file.relative_to(folder)) for file in local_files(folder)] if folder.is_dir() else []
    train = {file for file in names if _TRAIN.search(file)}
    return [folder / file for file in names if train and file not in train and _HELD_OUT.search(file)]


def source_names(files: Sequence[Path]) -> list[str]:
    """The name of each file without endings, after as much of its path as makes it unique: many data sets have a
    `train-00000-of-00001.parquet`. Files of one folder that differ in the ending only keep it. In the Hub's cache, the
    path is the one on the Hub."""
    paths = [Path(_IN_HUB_CACHE.sub(r"/\1/\2/", os.path.abspath(file.expanduser()))) for file in map(Path, files)]
    bare = {path: path.with_name(_ENDING.sub("", path.name)) for path in paths}
    alike = Counter(bare.values())
    parts = [(path if alike[bare[path]] > 1 else bare[path]).parts[1:] for path in paths]
    names, depth = [own[-1] for own in parts], 1
    while (shared := {name for name, times in Counter(names).items() if times > 1}) and depth < max(map(len, parts)):
        depth += 1
        names = ["/".join(own[-depth:]) if name in shared else name for name, own in zip(names, parts, strict=True)]
    return names


def _fetched(name: str, repo: str, revision: str, wanted: str | None) -> list[Path]:
    from huggingface_hub import HfApi, errors

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    place: dict[str, Any] = {"repo_id": repo, "repo_type": "dataset", "revision": revision}
    try:
        try:
            if not hub_answers():
                raise ConnectionError("it does not answer")
            listed = sorted(api.list_repo_files(**place))
        except (errors.OfflineModeIsEnabled, errors.HTTPError, OSError) as unreachable:  # type: ignore
            if isinstance(unreachable, errors.RepositoryNotFoundError | errors.RevisionNotFoundError):
                raise
            root = Path(api.snapshot_download(local_files_only=True, **place))  # from the cache
            listed = sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())
            paths = [root / file for file in _cached(listed, wanted)]
        else:  # all of them: those that the cache has may be a part
            paths = [Path(api.hf_hub_download(filename=file, **place)) for file in _chosen(listed, wanted)]
    except (errors.HTTPError, errors.HFValidationError, OSError) as error:  # type: ignore
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise NotFetched(
            f"{name}: no such file here, and the Hub does not provide it ({reason}). Check the name, the network "
            "(HF_ENDPOINT, HF_HUB_OFFLINE) and, for a gated data set, the login (`hf auth login`); or download it "
            f"(`hf download --repo-type dataset {repo}`) and give the directory."
        ) from error
    if not paths:
        raise RatchetError(
            f"{name}: this data set on the Hub has no {wanted or 'data file'}. It has {', '.join(listed[:10])}"
            f"{' …' if len(listed) > 10 else ''}."
        )
    return paths


def _chosen(listed: list[str], wanted: str | None) -> list[str]:
    """The files that match, or, by default, those of the train split."""
    files = [file for file in listed if is_data(file)]
    if wanted:
        return [file for file in files if fnmatch(file, wanted) or file.startswith(wanted.rstrip("/") + "/")]
    return [file for file in files if _TRAIN.search(file)] or files


def _cached(listed: list[str], wanted: str | None) -> list[str]:
    """The chosen files of a cache, which has what was fetched before by anyone: perhaps some shards, or another split.
    Raises FileNotFoundError where that shows."""
    files = _chosen(listed, wanted)
    if not wanted and (others := [file for file in files if _HELD_OUT.search(file) and not _TRAIN.search(file)]):
        raise FileNotFoundError(f"the cache has {others[0]}, which is no train split; name a file to have it: …/FILE")
    there, shards = {*listed}, [match.groups(default="") for match in map(_SHARD.fullmatch, files) if match]
    for before, digits, of, after in dict.fromkeys((before, len(n), of, after) for before, n, of, after in shards):
        names = [f"{before}{number:0{digits}}-of-{of}{after}" for number in range(int(of) + 1)]
        counted = names[1:] if names[-1] in there else names[:-1]  # from 1, or from 0
        if missing := [name for name in _chosen(counted, wanted) if name not in there]:
            raise FileNotFoundError(f"the cache lacks {missing[0]} and has other parts of it")
    return files


def _some(files: list[Path], name: str) -> list[Path]:
    if not files:
        raise RatchetError(f"{name}: no data files there; they end in {', '.join(SUFFIXES)}.")
    return files
