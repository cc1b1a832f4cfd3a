import json

import pytest

from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.limits import read_megabytes, read_seconds
from ratchet.data_curation.readers.malformed import Malformed
from ratchet.verifiers.errors import RatchetError
from tests.data_curation.readers.files import only, write_lines


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("500 milliseconds", 0.5), ("2 s", 2), ("2.0 seconds", 2), ("1,5 s", 1.5), ("1,000 ms", 1), ("2000ms", 2),
     ("2000", 2), (2000, 2), (2.0, 2), (12, 12), ("1 minute", 60), ("2 seconds per test", 2),
     ("time limit per test: 3 seconds", 3),
     ({"seconds": 1, "nanos": 500_000_000}, 1.5), ({"seconds": 0, "nanos": 0}, None), (None, None), ("", None),
     ("None", None), (0, None)],
)  # fmt: skip
def test_time_limits_in_any_unit(value, seconds):
    assert read_seconds(value, "time_limit") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "megabytes"),
    [("256 megabytes", 256), ("1 GB", 1000), ("1 GiB", 1073.741824), ("512 MiB", 536.870912), ("65536 KB", 65.536),
     ("256.0 MB", 256), (256, 256), (1024, 1024), (262144, 262.144), (268435456, 268.435456), ("unlimited", None),
     (None, None), ("64M", 64)],
)  # fmt: skip
def test_memory_limits_in_any_unit(value, megabytes):
    assert read_megabytes(value, "memory_limit") == pytest.approx(megabytes)


@pytest.mark.parametrize(
    ("read", "value", "column", "limit"),
    [
        (read_seconds, 50, "time_limit_ms", 0.05), (read_seconds, 120, "time_limit_s", 120),
        (read_seconds, 300, "timeout_seconds", 300), (read_seconds, 50, "time_limit_milliseconds", 0.05),
        (read_seconds, "500 ms", "time_limit_s", 0.5), (read_megabytes, 2_000_000, "memory_limit_bytes", 2),
        (read_megabytes, 20_000, "memory_limit_mb", 20_000), (read_megabytes, 2, "memory_limit_gb", 2000),
    ],
)  # fmt: skip
def test_a_columns_name_decides_its_unit(read, value, column, limit):
    assert read(value, column) == pytest.approx(limit)


@pytest.mark.parametrize("value", ["2 fortnights", "fast", [2], True, "2 s or 3 s"])
def test_what_is_no_limit_is_malformed(value):
    with pytest.raises(Malformed, match=r"time_limit: .* is not a time limit like '2 seconds'"):
        read_seconds(value, "time_limit")


NESTED = {
    "verl": {"prompt": [{"role": "user", "content": "P?"}], "reward_model": {"ground_truth": "4", "style": "rule"}},
    "as text": {"prompt": json.dumps([{"role": "user", "content": "P?"}]), "reward_model": '{"ground_truth": "4"}'},
    "a literal": {"prompt": [{"role": "user", "content": "P?"}], "reward_model": "{'ground_truth': '4'}"},
}


@pytest.mark.parametrize("row", NESTED.values(), ids=NESTED)
def test_nested_fields_are_mapped_by_their_paths(tmp_path, row):
    columns = {"prompt": "prompt", "answer": "reward_model.ground_truth"}
    problem = only(read_problems(write_lines(tmp_path / "v.jsonl", [row]), "math", columns))
    assert (problem.prompt, problem.answer) == ("P?", "4")


def test_paths_lead_into_lists_and_a_column_may_have_a_dot(tmp_path):
    chat = [{"role": "user", "content": "P?"}, {"role": "assistant", "content": "So \\boxed{4}."}]
    columns = {"prompt": "messages.0.content", "answer": "messages.-1.content", "metadata.level": "about.level"}
    row = {"messages": chat, "about.level": 3}
    problem = only(read_problems(write_lines(tmp_path / "v.jsonl", [row]), "math", columns))
    assert (problem.prompt, problem.answer, json.loads(problem.metadata)["level"]) == ("P?", "4", 3)


def test_a_path_that_leads_nowhere_is_an_error_with_the_names_that_are_there(tmp_path):
    file = write_lines(tmp_path / "v.jsonl", [NESTED["verl"]])
    with pytest.raises(RatchetError, match=r"no column 'reward_model\.truth'.*; reward_model has ground_truth, style"):
        read_problems(file, "math", {"prompt": "prompt", "answer": "reward_model.truth"})
