"""`ratchet verify math` through the real command line."""

import json
import re

import pytest


def test_one_pair_is_explained(ratchet):
    done = ratchet("verify", "math", "--gold", "1/2", "--response", "<think>1?</think> So \\boxed{0.5}")
    assert done.returncode == 0, done.stderr
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert (shown["outcome"], shown["extracted"], shown["tier"]) == ("passed", "0.5", "exact")
    assert shown["why"] == "0.5 is 1/2, as exact numbers"
    assert re.fullmatch(r"\d+\.\d\d ms", shown["time"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--gold", "5", "--pred", "6"], "6 is not 5, as exact numbers"),
        (["--gold", "5", "--pred", "[bold]5"], "[bold]5"),
        (["--gold", "5", "--response", "it is 5"], "nothing is boxed after the thinking"),
        (["--gold", "5", "--response", "<think>\\boxed{5}"], "the thinking is not closed"),
        (["--gold", "", "--pred", "5"], "the reference is empty"),
        (["--gold", "5", "--pred", "9^{9^{9^9}}"], "a tower of powers"),
    ],
)
def test_what_does_not_pass_ends_in_1_and_says_why(ratchet, arguments, expected):
    done = ratchet("verify", "math", *arguments)
    assert done.returncode == 1
    assert expected in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Say --gold and either --response or --pred"),
        (["--gold", "1"], "Say --gold and either"),
        (["--gold", "1", "--pred", "1", "--response", "1"], "Say --gold and either"),
        (["--input", "pairs.jsonl"], "--input FILE --output FILE"),
        (["--input", "nowhere.jsonl", "--output", "out.jsonl"], "There is no file nowhere.jsonl"),
    ],
)
def test_a_mistake_gets_one_message_and_code_2(ratchet, arguments, message):
    done = ratchet("verify", "math", *arguments)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_file_keeps_every_row_in_order_and_sets_the_bad_ones_aside(ratchet, tmp_path):
    lines = [
        b'{"gold": "1/2", "pred": "0.5", "id": 7}',
        b'{"gold": "\\\\cos 2x", "response": "\\\\boxed{1-2\\\\sin^2 x}"}',
        b"not json",
        b'{"gold": "3"}',
        b'{"pred": "3"}',
        b'{"gold": "3", "pred": "3", "response": "3"}',
        b'{"gold": null, "pred": "3"}',
        b"[1, 2]",
        b"",
        b'{"gold": "\xff", "pred": "3"}',
        b'{"gold": 3, "pred": 3.0}',
        b'{"gold": "3", "pred": "4", "outcome": "from before"}',
        b'{"gold": "3", "pred": ""}',
        b'{"gold": "", "pred": "3"}',
        b'{"gold": "3", "pred": "\\ud800"}',
        b'{"gold": "3", "pred": "3\\u0000"}',
        b'{"gold": "3", "response": "no box"}',
    ]
    source, target = tmp_path / "pairs.jsonl", tmp_path / "judged.jsonl"
    source.write_bytes(b"\n".join(lines))
    done = ratchet("verify", "math", "--input", source, "--output", target)
    assert done.returncode == 1, done.stderr  # not all could be judged
    rows = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    expected = ["passed", "passed"] + [None] * 7
    expected += ["passed", "failed", "unparseable", "unparseable", "failed", "failed", "unparseable"]
    assert [row["outcome"] for row in rows] == expected
    assert rows[0]["id"] == 7 and rows[0]["tier"] == "exact" and rows[0]["milliseconds"] >= 0
    assert rows[1]["tier"] == "symbolic"
    assert rows[2]["row"] == "not json" and f"{source}:3: not JSON" in rows[2]["error"]
    assert rows[3]["error"] == f"{source}:4: exactly one of the fields pred and response is needed"
    assert rows[4]["error"] == f"{source}:5: the field gold is missing"
    assert rows[8]["error"].startswith(f"{source}:10: not JSON") and rows[8]["tier"] is None
    assert rows[9]["gold"] == 3
    assert "set aside" in done.stdout and f"{source}:3" in done.stdout
    assert re.search(r"16 pairs in [\d.]+ s", done.stdout)
    assert "pairs/s" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_output_that_cannot_be_finished_leaves_the_old_one(ratchet, tmp_path):
    source, target = tmp_path / "pairs.jsonl", tmp_path / "nowhere" / "judged.jsonl"
    source.write_text('{"gold": "1", "pred": "1"}\n')
    done = ratchet("verify", "math", "--input", source, "--output", target)
    assert done.returncode == 2 and "There is no directory" in done.stderr
    same = ratchet("verify", "math", "--input", source, "--output", source)
    assert same.returncode == 0
    assert json.loads(source.read_text())["outcome"] == "passed"


def test_help_teaches_with_an_example(ratchet):
    shown = ratchet("verify", "math", "--help")
    assert shown.returncode == 0
    assert "ratchet verify math --gold" in re.sub(r"\s+", " ", shown.stdout)
