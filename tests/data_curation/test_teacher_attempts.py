import json
from random import Random

import pytest

from data_curation.teacher_attempts import collect_attempts
from data_curation.tiny_world.math_problems import draw_problem
from data_curation.tiny_world.teacher import ProceduralTeacher
from infra.errors import RatchetError
from infra.inference.protocol import Completion
from infra.problems import problem_id, to_table
from infra.recipe.model import PromptFormat, Teacher

TEACHER = Teacher(kind="procedural", model="t", attempts=3, temperature=1.0, top_p=1.0, max_tokens=64)
FORMAT = PromptFormat(math="{prompt}")


class CountingTeacher(ProceduralTeacher):
    """The procedural teacher behind a line that counts what is asked, and breaks when told to."""

    def __init__(self, break_after: int | None = None, fail_every: int | None = None) -> None:
        super().__init__()
        self.asked, self.break_after, self.fail_every = 0, break_after, fail_every

    def generate(self, requests, sampling):
        for completion in super().generate(requests, sampling):
            self.asked += 1
            if self.break_after and self.asked > self.break_after:
                raise KeyboardInterrupt
            if self.fail_every and self.asked % self.fail_every == 0:
                yield Completion(completion.key, "", "error", 0, error="503 overloaded")
            else:
                yield completion


@pytest.fixture
def problems():
    prompts = {draw_problem(Random(i), 3).prompt for i in range(10)}
    return to_table(
        [{"problem_id": problem_id("math", p), "domain": "math", "prompt": p, "answer": "1"} for p in prompts]
    )


def collect(problems, engine, journal, teacher=TEACHER):
    return collect_attempts(problems, engine, teacher, FORMAT, journal, seed=0)


def test_every_problem_is_answered_as_often_as_asked(problems, tmp_path):
    attempts = collect(problems, CountingTeacher(), tmp_path / "journal.jsonl")
    assert len(attempts) == 3 * len(problems)
    assert attempts.column("sample").to_pylist()[:3] == [0, 1, 2]


def test_what_was_answered_is_never_asked_again(problems, tmp_path):
    journal = tmp_path / "journal.jsonl"
    whole = collect(problems, CountingTeacher(), tmp_path / "other.jsonl")
    with pytest.raises(KeyboardInterrupt):
        collect(problems, CountingTeacher(break_after=7), journal)
    with open(journal, "a") as file:
        file.write('{"key": "torn off in the mid')
    second = CountingTeacher()
    assert collect(problems, second, journal).equals(whole)
    assert second.asked == len(whole) - 7
    reordered = CountingTeacher()
    collect(problems.take(list(range(len(problems)))[::-1]), reordered, journal)
    more = CountingTeacher()
    collect(problems, more, journal, TEACHER.model_copy(update={"attempts": 4}))
    assert (reordered.asked, more.asked) == (0, len(problems))


def test_failed_calls_are_not_answers(problems, tmp_path):
    with pytest.raises(RatchetError, match=r"503 overloaded.*run the same command again"):
        collect(problems, CountingTeacher(fail_every=4), tmp_path / "journal.jsonl")
    again = CountingTeacher()
    assert len(collect(problems, again, tmp_path / "journal.jsonl")) == 3 * len(problems)
    assert again.asked == 3 * len(problems) // 4


def test_a_damaged_journal_is_named_with_its_line(problems, tmp_path):
    journal = tmp_path / "journal.jsonl"
    collect(problems, CountingTeacher(), journal)
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0], "{broken", *lines[2:]]) + "\n")
    with pytest.raises(RatchetError, match=r"journal\.jsonl, line 2"):
        collect(problems, CountingTeacher(), journal)
    assert json.loads(lines[0])["finish_reason"] in ("stop", "length")


def test_two_functions_with_one_statement_are_both_answered(tmp_path):
    rows = [
        {
            "problem_id": problem_id("code", "Write it.", name),
            "domain": "code",
            "prompt": "Write it.",
            "entry_point": name,
        }
        for name in ("f", "g")
    ]
    attempts = collect(to_table(rows), CountingTeacher(), tmp_path / "journal.jsonl")
    assert len(set(attempts.column("problem_id").to_pylist())) == 2 and len(attempts) == 6


def test_a_refusal_in_a_hundred_holds_up_nothing_and_is_asked_again_next_time(tmp_path):
    prompts = [f"Problem {i}" for i in range(40)]
    table = to_table([{"problem_id": str(i), "domain": "math", "prompt": p} for i, p in enumerate(prompts)])
    journal = tmp_path / "journal.jsonl"
    assert len(collect(table, CountingTeacher(fail_every=100), journal)) == 3 * 40 - 1
    again = CountingTeacher()
    assert len(collect(table, again, journal)) == 3 * 40 and again.asked == 1
