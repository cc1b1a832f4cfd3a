import multiprocessing
import os
import signal
import time

import pytest

from ratchet.evaluation.generation_store import GenerationStore, read_part
from ratchet.verifiers.errors import RatchetError
from tests.waiting import happens


def row(problem: str, sample: int, text: str = "t") -> dict:
    return {"problem_id": problem, "sample": sample, "prompt": "p", "text": text, "finish_reason": "stop", "tokens": 3}


def key(problem: str, sample: int) -> tuple:
    return (problem, sample, "p")


def test_rows_come_back_in_the_order_asked_for(tmp_path):
    with GenerationStore(tmp_path, "b", {"seed": 1}).locked() as store:
        store.write([row("a", 0), row("a", 1)])
        store.write([row("b", 0, "later")])
    again = GenerationStore(tmp_path, "b", {"seed": 1})
    where = again.stored()
    assert [read_part(where[k])[k] for k in (key("b", 0), key("a", 1))] == [row("b", 0, "later"), row("a", 1)]
    assert GenerationStore(tmp_path, "b", {"seed": 2}).stored() == {}


def test_a_flipped_bit_in_a_part_is_never_read(tmp_path):
    """Wherever it is: within a text it leaves a file that can be read."""
    store = GenerationStore(tmp_path, "b", {})
    with store.locked():
        (part,) = set(store.write([row("a", sample, f"text {sample} " * 20) for sample in range(20)]).values())
    content, rows, named = part.read_bytes(), read_part(part), 0
    for place in range(4, len(content) - 8, 3):
        read_part.cache_clear()
        part.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert read_part(part) == rows, f"byte {place} of {len(content)}"  # it is in no row, but in a statistic
        except RatchetError as error:
            assert f"{part} is damaged" in str(error) and "sampled again" in str(error)
            assert not part.exists() and store.stored() == {}
            named += 1
    assert named > 100


def test_what_the_disk_does_not_give_is_not_deleted(tmp_path):
    """A link to itself: its error has a number, as those of a network disk that is away."""
    store = GenerationStore(tmp_path, "b", {})
    with store.locked():
        (part,) = set(store.write([row("a", 0)]).values())
    part.unlink()
    part.symlink_to(part)
    read_part.cache_clear()
    for read in (store.stored, lambda: read_part(part)):
        with pytest.raises(RatchetError, match="cannot be read"):
            read()
    assert part.is_symlink()


def test_the_journal_survives_a_torn_line_and_becomes_a_part(tmp_path):
    store = GenerationStore(tmp_path, "b", {})
    with store.locked():
        for sample in range(3):
            store.append(row("ü", sample, "line\n{"))
    journal = store.directory / "journal.jsonl"
    with open(journal, "ab") as file:
        file.write(b'{"problem_id": "torn", "sam')
    with store.locked():
        assert not journal.exists()
        where = store.stored()
    assert set(where) == {key("ü", sample) for sample in range(3)}
    assert read_part(where[key("ü", 2)])[key("ü", 2)] == row("ü", 2, "line\n{")


def test_killed_while_sealing_nothing_is_there_twice(tmp_path):
    store = GenerationStore(tmp_path, "b", {})
    with store.locked():
        store.append(row("a", 0))
        line = (store.directory / "journal.jsonl").read_bytes()
        store.seal()
        (store.directory / "journal.jsonl").write_bytes(line)  # the part was written, the journal not yet removed
    with store.locked():
        assert set(store.stored()) == {key("a", 0)} and len(list(store.directory.glob("*.parquet"))) == 1


def test_a_second_evaluation_waits_and_a_dead_one_holds_nothing(tmp_path):
    def hold() -> None:
        with GenerationStore(tmp_path, "b", {}).locked():
            (tmp_path / "held").touch()
            time.sleep(60)

    holder = multiprocessing.get_context("fork").Process(target=hold)
    holder.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.01)

    def enter() -> None:
        with GenerationStore(tmp_path, "b", {}).locked((tmp_path / "said").write_text):
            (tmp_path / "entered").touch()

    second = multiprocessing.get_context("fork").Process(target=enter)
    second.start()
    second.join(0.3)
    assert second.is_alive() and not (tmp_path / "entered").exists()
    assert happens(lambda: (tmp_path / "said").exists())
    os.kill(holder.pid, signal.SIGKILL)
    second.join()
    assert (tmp_path / "entered").exists()
    said = f"Another run (process {holder.pid}) is sampling b with this model. Waiting for it."
    assert (tmp_path / "said").read_text() == said
    holder.join()
