import errno
import fcntl
import hashlib
import json
import os
from pathlib import Path

import pytest

from ratchet.data_curation.base.files import disk_errors, exclusive, write_atomically
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.verifiers.errors import RatchetError


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.ENOSPC, "Free some space"), (errno.EACCES, "Make its folder writable for you")]
)
def test_what_cannot_be_written_is_named_with_what_to_do(tmp_path, number, remedy):
    """Of a rename, the place that refuses it."""
    said = rf"Cannot write there: .*\. {remedy} or set RATCHET_HOME.*run the same command again"
    with pytest.raises(RatchetError, match=said), disk_errors(tmp_path):
        raise OSError(number, os.strerror(number), "here", None, "there")
    with pytest.raises(FileNotFoundError), disk_errors(tmp_path):
        raise FileNotFoundError(errno.ENOENT, "other errors pass", "x")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_really_full_device(tmp_path):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with pytest.raises(RatchetError, match="No space left"), disk_errors(tmp_path), open(full, "w") as file:
        file.write("x")
        file.flush()


def test_atomic_writing_replaces_whole_files(tmp_path):
    file = tmp_path / "status.json"
    write_atomically(file, json.dumps({"n": 1}))
    write_atomically(file, json.dumps({"n": 2}))
    assert json.loads(file.read_text()) == {"n": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


def in_the_hubs_cache(root: Path, name: str, content: bytes) -> Path:
    blob, link = root / "blobs" / name, root / "snapshots" / "main" / "train.jsonl"
    for path in (blob, link):
        path.parent.mkdir(parents=True)
    blob.write_bytes(content)
    link.symlink_to(blob)
    return link


@pytest.mark.parametrize("kind", ["sha256", "git", "sha1"])
def test_a_cached_file_that_is_not_what_was_downloaded_is_named(tmp_path, kind):
    content = b'{"question": "1 + 1"}\n' * 100
    head = b"blob %d\0" % len(content) if kind == "git" else b""
    name = (hashlib.sha256 if kind == "sha256" else hashlib.sha1)(head + content).hexdigest()
    link = in_the_hubs_cache(tmp_path, name, content)
    assert ArtifactStore(tmp_path / "store").file(link).key == hashlib.sha256(content).hexdigest()
    blob = link.resolve()
    blob.write_bytes(content.replace(b"1 + 1", b"1 + 3", 1))
    os.utime(blob, ns=(1, 1))
    with pytest.raises(RatchetError, match=rf"train\.jsonl is not what was downloaded.*Delete .*{name} and run again"):
        ArtifactStore(tmp_path / "store").file(link)


def test_a_cached_file_that_is_named_by_no_hash_is_read(tmp_path):
    link = in_the_hubs_cache(tmp_path, "an-etag-of-a-mirror", b"[1]")
    assert ArtifactStore(tmp_path / "store").file(link).key == hashlib.sha256(b"[1]").hexdigest()


def test_a_look_at_a_lock_is_no_other_run(tmp_path, monkeypatch):
    """`is_locked` takes the lock for a moment."""
    (tmp_path / "lock").touch()
    with open(tmp_path / "lock") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        monkeypatch.setattr("time.sleep", lambda _: look.close())
        with exclusive(tmp_path / "lock", "makes it"):
            assert look.closed
        monkeypatch.setattr("time.sleep", lambda _: None)
        with (
            exclusive(tmp_path / "lock", "makes it"),
            pytest.raises(RatchetError, match=rf"Another run \(process {os.getpid()}\) makes it"),
            exclusive(tmp_path / "lock", "makes it"),
        ):
            pass
