import errno
import json
import os

import pytest

from ratchet.data_curation.base.files import disk_errors, write_atomically
from ratchet.verifiers.errors import RatchetError


def test_a_full_disk_is_said_with_what_to_do(tmp_path):
    with (
        pytest.raises(RatchetError, match=r"No space left on device.*run the same command again"),
        disk_errors(tmp_path),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "kept.parquet"))
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
