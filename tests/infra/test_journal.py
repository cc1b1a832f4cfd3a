import multiprocessing
import resource
import time

import pytest

from ratchet.data_curation.base import slow_calls
from ratchet.data_curation.base.journal import Journal, read_lines
from ratchet.verifiers.errors import RatchetError
from tests.waiting import PATIENCE_S


def test_a_line_torn_off_by_a_kill_is_no_record_and_is_cut_off(tmp_path):
    path = tmp_path / "new" / "j.jsonl"
    with Journal(path, durable=True) as journal:
        places = [journal.append({"n": n, "text": "ü" * n}) for n in range(300)]
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"n": 300, "te')
    assert [record["n"] for _, record in read_lines(path)] == list(range(300))
    with Journal(path) as journal:
        assert path.read_bytes() == whole
        assert journal.record_at(places[250]) == {"n": 250, "text": "ü" * 250}
        assert journal.append({"n": 301}) == len(whole)
    path.write_bytes(b'{"no line end')
    Journal(path).close()
    assert path.read_bytes() == b""


def test_reading_goes_on_where_it_ended_and_writing_from_where_is_said(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        for n in range(3):
            journal.append({"n": n})
    (first, _), (second, _), _ = read_lines(path)
    assert [record["n"] for _, record in read_lines(path, second)] == [2]
    with Journal(path, keep=first) as journal:
        journal.append({"n": 9})
    assert [record["n"] for _, record in read_lines(path)] == [0, 9]


@pytest.mark.parametrize("line", [b"{torn\n", b"[1]\n", b"\xff\n", b"\n"])
def test_a_damaged_line_in_the_middle_is_named(tmp_path, line):
    path = tmp_path / "j.jsonl"
    path.write_bytes(b'{"n": 1}\n' + line + b'{"n": 2}\n')
    with pytest.raises(RatchetError, match=r"j\.jsonl, line 2: not a JSON object"):
        list(read_lines(path))


def _write_later(path, opened):
    with Journal(path, alone=True) as journal:
        opened.set()
        time.sleep(0.3)
        journal.append({"writer": "first"})


def test_a_second_writer_says_that_it_waits_for_the_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(slow_calls, "QUIET_S", 0.0)
    path, context = tmp_path / "j.jsonl", multiprocessing.get_context("spawn")
    opened = context.Event()
    first = context.Process(target=_write_later, args=(path, opened))
    first.start()
    assert opened.wait(PATIENCE_S)
    with Journal(path, alone=True) as journal:
        assert f"Another run writes to {path}" in capsys.readouterr().err
        journal.append({"writer": "second"})
    first.join()
    assert [record["writer"] for _, record in read_lines(path)] == ["first", "second"]


def test_what_a_full_disk_took_of_a_line_is_cut_off_before_the_next(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        size = journal.append({"n": 1}) + path.stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, limits[1]))  # stands for the room on the disk
        try:
            with pytest.raises(RatchetError, match=r"Cannot write .*: File too large"):
                journal.append({"n": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        journal.append({"n": 3})
    assert [record["n"] for _, record in read_lines(path)] == [1, 3]
