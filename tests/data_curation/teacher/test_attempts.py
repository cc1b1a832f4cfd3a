import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.openai_engine import OpenAIEngine
from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.base.protocol import Completion
from ratchet.data_curation.settings.teacher import Teacher, TeacherDetails
from ratchet.data_curation.teacher.attempts import collect_attempts, difficulty, known_attempts, problem_prompts
from ratchet.examples.tiny_world.math_problems import draw_problem
from ratchet.examples.tiny_world.teacher import ProceduralTeacher
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import problem_id
from tests.infra.tiny_endpoint import FaultyProxy, TinyEndpoint, grow_model

TINY = "ratchet.examples.tiny_world.teacher"
TEACHER = Teacher(kind=TINY, model="careful", attempts=3, temperature=1.0, top_p=1.0, max_tokens=64)
FORMAT = PromptFormat(math="{prompt}")


def details(**settings) -> Teacher:
    return TEACHER.model_copy(update={"advanced": TeacherDetails(**settings)})


class CountingTeacher(ProceduralTeacher):
    """The procedural teacher behind a line that counts what is asked, and fails on command."""

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
    output = journal.with_name("attempts.parquet")
    collect_attempts(problem_prompts(lambda: [problems], FORMAT), engine, teacher, journal, 0, output)
    return pq.read_table(output)


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
    first, again = CountingTeacher(fail_every=2), CountingTeacher()
    with pytest.raises(RatchetError, match=r"503 overloaded.* 4 of 30 answers are in .*: the same command asks only"):
        collect(problems, first, tmp_path / "journal.jsonl")
    assert first.asked == 8, "it stops once more have failed than one problem has attempts"
    assert len(collect(problems, again, tmp_path / "journal.jsonl")) == 3 * len(problems)
    assert again.asked == 3 * len(problems) - 4


def test_two_functions_with_one_statement_are_both_answered(tmp_path):
    about = {"domain": "code", "prompt": "Write it."}
    rows = [about | {"problem_id": problem_id("code", "Write it.", f), "entry_point": f} for f in ("f", "g")]
    attempts = collect(to_table(rows), CountingTeacher(), tmp_path / "journal.jsonl")
    assert len(set(attempts.column("problem_id").to_pylist())) == 2 and len(attempts) == 6


class PaidTeacher(ProceduralTeacher):
    """Says what an endpoint says, or does not: how many tokens it counted. Notes the most it had open."""

    def __init__(self, tokens: int | None = 1000, at_once: int = 4) -> None:
        super().__init__()
        self.tokens, self.at_once, self.asked = tokens, at_once, 0

    def generate(self, requests, sampling):
        while batch := list(islice(requests, self.at_once)):
            self.asked += len(batch)
            for completion in super().generate(batch, sampling):
                yield replace(completion, tokens=self.tokens, prompt_tokens=100)


def paid(max_cost: float | None = None, **settings) -> Teacher:
    teacher = details(prices=(1.0, 2.0), max_cost=max_cost)
    return teacher.model_copy(update={"expected_tokens": 500, **settings})


def test_the_cost_is_estimated_first_and_corrected_by_what_comes(problems, tmp_path):
    notes, shown, kept = [], [], []

    def progress(done, total, facts):
        shown.append((done, facts["expected_cost"]))
        kept.append(facts)

    bill = collect_attempts(
        problem_prompts(lambda: [problems], FORMAT), PaidTeacher(), paid(max_tokens=4096), tmp_path / "j.jsonl", 0,
        tmp_path / "a.parquet", progress=progress, note=notes.append,
    )  # fmt: skip
    characters = sum(len(p) for p in problems["prompt"].to_pylist()) * 3
    guess = (characters / 3.5 * 1.0 + 30 * 500 * 2.0) / 1e6
    assert notes == [
        f"30 of 30 answers to request; about {characters / 3.5:,.0f} prompt and 15K response tokens, about {guess:.4f}."
    ]
    true = 30 * (100 * 1.0 + 1000 * 2.0) / 1e6
    assert shown[0] == (0, pytest.approx(guess)) and shown[-1] == (30, pytest.approx(true))
    assert shown[8][1] == pytest.approx(true, rel=0.1), "a few answers correct the guess"
    assert kept[0]["expected_cost"] == pytest.approx(true), "facts are computed when they are read"
    assert bill.totals()["cost"] == pytest.approx(true)


def test_a_ceiling_stops_cleanly_and_a_higher_one_goes_on(problems, tmp_path):
    journal, one = tmp_path / "journal.jsonl", 30 * (100 + 2000) / 1e6 / 30
    teacher, engine = paid(max_cost=12.5 * one, max_tokens=4096), PaidTeacher()
    with pytest.raises(RatchetError, match=r"max_cost 0\.0262\. .* about 0\.06\d\d\. 12 of 30 answers are in"):
        collect(problems, engine, journal, teacher)
    with pytest.raises(RatchetError, match="12 of 30"):
        collect(problems, engine, journal, teacher)
    assert engine.asked == 12, "what was paid for in an earlier run counts, and nothing more is asked"
    assert len(collect(problems, engine, journal, paid(max_cost=1.0, max_tokens=4096))) == engine.asked == 30


def test_tokens_are_counted_by_the_endpoint_else_by_a_tokenizer_else_not_at_all(problems, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    assert set(collect(problems, PaidTeacher(7), tmp_path / "0.jsonl")["counted_by"].to_pylist()) == {"teacher"}
    journal, silent = tmp_path / "journal.jsonl", PaidTeacher(None)
    with pytest.raises(RatchetError, match=r"teacher\.advanced\.tokenizer.* 8 of 30 answers are in"):
        collect(problems, silent, journal)
    words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    rows = collect(problems, silent, journal, details(tokenizer=str(tmp_path))).to_pylist()
    assert silent.asked == 30, "what was kept without a count is counted, not asked again"
    assert all(row["tokens"] == len(row["response"].split()) and row["counted_by"] == "tokenizer" for row in rows)


class Answering(PaidTeacher):
    """Gives each attempt at a prompt the next of these responses."""

    def __init__(self, *responses: str) -> None:
        super().__init__(at_once=1)
        self.responses, self.given = responses, Counter()

    def generate(self, requests, sampling):
        for request in requests:
            prompt = request.messages[0]["content"]
            self.given[prompt] += 1
            self.asked += 1
            yield Completion(request.key, self.responses[self.given[prompt] - 1], "stop", 5, prompt_tokens=5)


def test_more_attempts_ask_only_for_those_that_are_missing(problems, tmp_path):
    journal, eight = tmp_path / "journal.jsonl", TEACHER.model_copy(update={"attempts": 8})
    collect(problems, Answering(*"12345"), journal, TEACHER.model_copy(update={"attempts": 5}))
    known = known_attempts(problem_prompts(lambda: [problems], FORMAT), eight, journal, 0)
    assert (known.answered, known.answers) == (5 * len(problems), 8 * len(problems))
    rest = Answering(*"678")
    responses = collect(problems, rest, journal, eight)["response"].to_pylist()
    assert rest.asked == 3 * len(problems) and responses == [*"12345678"] * len(problems)


def test_an_endpoint_that_says_nothing_is_noticed_before_it_is_paid_for_long(tmp_path):
    table = to_table([{"problem_id": str(i), "domain": "math", "prompt": f"Problem {i}"} for i in range(40)])
    silent, journal = Answering(*["<think>\nhm\n</think>\n"] * 3), tmp_path / "journal.jsonl"
    with pytest.raises(RatchetError, match="All 20 answers so far are empty"):
        collect(table, silent, journal)
    assert silent.asked == 20
    assert len(collect(table, Answering("one", "two", "three"), journal)) == 120, "once fixed, it continues"


def test_answers_without_a_text_are_counted(problems, tmp_path):
    notes = []
    bill = collect_attempts(
        problem_prompts(lambda: [problems], FORMAT), Answering("", "<think>x</think> ", "one"), TEACHER,
        tmp_path / "journal.jsonl", 0, tmp_path / "a.parquet", note=notes.append,
    )  # fmt: skip
    assert bill.totals()["empty_answers"] == 20 and "20 empty" in bill.summary()
    assert notes[-1].startswith("20 of 30 answers have no text")


def test_requests_are_made_as_places_for_them_become_free(tmp_path):
    """However many problems there are, no more of them are read than are asked for, but for the batch they are in."""
    read, most_ahead = 0, 0

    def batches():
        nonlocal read
        for start in range(0, 4000, 10):
            read = start + 10
            rows = [{"problem_id": str(i), "domain": "math", "prompt": f"P {i}"} for i in range(start, start + 10)]
            yield to_table(rows)

    class Watching(PaidTeacher):
        def generate(self, requests, sampling):
            nonlocal most_ahead
            for completion in super().generate(requests, sampling):
                most_ahead = max(most_ahead, read - self.asked)
                yield completion

    teacher = TEACHER.model_copy(update={"attempts": 1})
    arguments = (Watching(), teacher, tmp_path / "journal.jsonl", 0, tmp_path / "a.parquet")
    assert collect_attempts(problem_prompts(batches, FORMAT), *arguments).answered == 4000
    assert most_ahead <= 10


def test_difficulty_is_eight_only_if_none_passed_and_zero_only_if_all_did():
    assert [difficulty(passes, 8) for passes in range(9)] == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert [difficulty(passes, 64) for passes in (0, 1, 63, 64)] == [8, 7, 1, 0]


# ------------------------------------------------------------------------- against a real server


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return grow_model(tmp_path_factory.mktemp("teacher"))


SUMS = to_table([{"problem_id": f"sum-{i}", "domain": "math", "prompt": f"What is {i} plus 9?"} for i in range(12)])
ASKED = Teacher(kind="openai", model="tiny", attempts=3, temperature=1.0, top_p=1.0, max_tokens=24, concurrency=6)
BAD_DAY = [
    "pass", "429", "500", "cut", "malformed", "slow", "ends early", "hang up", "pass", "429 until", "cut", "down",
    "malformed", "500", "pass", "cut", "429", "hang up",
]  # fmt: skip


def ask(url: str, journal) -> pa.Table:
    engine = OpenAIEngine("tiny", url, concurrency=ASKED.concurrency, backoff_s=0.05)
    try:
        return collect(SUMS, engine, journal, ASKED)
    finally:
        engine.close()


def test_a_bad_day_at_the_endpoint_changes_no_answer(model, tmp_path):
    endpoint = TinyEndpoint(model)
    proxy = FaultyProxy(endpoint, BAD_DAY)
    try:
        quiet = ask(endpoint.url, tmp_path / "quiet.jsonl")
        assert set(endpoint.asked.values()) == {1} and len(endpoint.asked) == len(quiet) == 36
        assert ask(proxy.url, tmp_path / "bad.jsonl").equals(quiet)
        assert set(BAD_DAY) <= set(proxy.met)
        broken_off = sum(proxy.met[fault] for fault in ("cut", "malformed", "ends early"))
        assert endpoint.asked.total() == 2 * 36 + broken_off, "only an answer that did not arrive is asked for again"
        asked = endpoint.asked.total()
        assert ask(proxy.url, tmp_path / "bad.jsonl").equals(quiet)
        assert endpoint.asked.total() == asked, "a journal replays without a call"
    finally:
        proxy.close()
        endpoint.close()


CLIENT = """
import sys
from pathlib import Path
from tests.data_curation.teacher.test_attempts import ask
ask(sys.argv[1], Path(sys.argv[2]))
"""


def test_killed_and_run_again_no_answer_is_asked_for_twice(model, tmp_path):
    endpoint, journal = TinyEndpoint(model, seconds_per_answer=0.1), tmp_path / "journal.jsonl"
    try:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, endpoint.url, str(journal)])
        while not journal.exists() or journal.read_bytes().count(b"\n") < 9:
            assert client.poll() is None
            time.sleep(0.005)
        client.kill()
        client.wait()
        time.sleep(2)  # the endpoint notices
        kept = journal.read_bytes().count(b"\n")
        asked = endpoint.asked.copy()
        # Lost is what was open, and on a busy machine answers that were on their way to the journal.
        assert 0 < kept < 36 and asked.total() <= kept + 2 * ASKED.concurrency
        assert len(ask(endpoint.url, journal)) == 36
        assert endpoint.asked.total() - asked.total() == 36 - kept, "only what is missing"
    finally:
        endpoint.close()
