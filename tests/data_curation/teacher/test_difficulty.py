import json

import pyarrow as pa
import pytest

from ratchet.data_curation import retry_timeouts
from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.teacher.attempts import ATTEMPTS_SCHEMA
from ratchet.data_curation.teacher.difficulty import grade
from ratchet.verifiers.serving.local_pool import VerifierPool

RIGHT, WRONG = "```python\ndef solve(x):\n    return x + 1\n```", "```python\ndef solve(x):\n    return x\n```"
TESTS = json.dumps([{"call": {"args": [i]}, "output": i + 1} for i in range(3)])
GIVEN = {
    "easy": [(RIGHT, "stop", 10)] * 4,
    "half": [(RIGHT, "stop", 10), (WRONG, "stop", 20), (RIGHT, "length", 100), (RIGHT, "stop", 30)],
    "never": [(WRONG, "stop", 10), ("no program", "stop", 10)],
    "refused": [("maximum context length", "refused", 0)] * 2,
}


@pytest.fixture(scope="module")
def split():
    problems = to_table(
        {"problem_id": name, "domain": "code", "prompt": name, "entry_point": "solve", "tests": TESTS} for name in GIVEN
    )
    attempts = pa.Table.from_pylist(
        [
            {"problem_id": name, "sample": i, "response": text, "finish_reason": reason, "tokens": tokens}
            for name, given in GIVEN.items()
            for i, (text, reason, tokens) in enumerate(given)
        ],
        schema=ATTEMPTS_SCHEMA,
    )
    with VerifierPool(workers=1) as pool:
        return grade(problems, attempts.to_batches(3), pool, max_difficulty=7)


def test_difficulty_is_failures_of_eight_and_an_attempt_that_was_cut_is_one(split):
    easy, half = split.kept.to_pylist()
    assert (easy["teacher_passes"], easy["difficulty"]) == (4, 0)
    measured = [half[name] for name in ("teacher_passes", "teacher_attempts", "difficulty", "teacher_tokens")]
    assert measured == [2, 4, 4, 40]
    said = json.loads(half["metadata"])["difficulty"]
    assert said == {"outcomes": {"failed": 2, "passed": 2}, "truncated": 1, "unjudged": 0, "tokens": [10, 20, 30, 100]}


def test_what_is_never_solved_and_what_was_never_tried_are_two_reasons(split):
    reasons = {row["problem_id"]: (row["rule"], json.loads(row["evidence"])) for row in split.rejected.to_pylist()}
    assert reasons["never"][0] == "unsolved" and reasons["never"][1]["outcomes"] == {"failed": 1, "unparseable": 1}
    assert reasons["refused"] == ("no_attempt", {"reason": "maximum context length"})


def test_an_attempt_somewhat_beyond_its_time_limit_is_judged_again_with_more(monkeypatch):
    widened = retry_timeouts._widened
    monkeypatch.setattr(retry_timeouts, "_widened", lambda submission, wider: widened(submission, 10 * wider))
    spinning = (
        "```python\nimport time\n\n\ndef solve(x):\n    end = time.process_time() + {}\n"
        "    while time.process_time() < end:\n        pass\n    return x + 1\n```"
    )
    row = {"problem_id": "slow", "domain": "code", "prompt": "slow", "entry_point": "solve", "tests": TESTS}
    attempts = [
        {"problem_id": "slow", "sample": i, "response": text, "finish_reason": "stop", "tokens": 1}
        for i, text in enumerate((spinning.format(0.2), spinning.format(9999), RIGHT))
    ]
    counted = []
    with VerifierPool(workers=1) as pool:
        batches = pa.Table.from_pylist(attempts, schema=ATTEMPTS_SCHEMA).to_batches()
        [slow] = grade(to_table([row | {"time_limit_s": 0.1}]), batches, pool, 7, counted.append).kept.to_pylist()
    assert json.loads(slow["metadata"])["difficulty"]["outcomes"] == {"failed": 1, "passed": 2}
    assert counted == [1, 2, 3]
