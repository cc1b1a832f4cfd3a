"""A teacher's endpoint that answers in every wrong way: nothing blocks a run, and nothing is answered twice."""

import json
from collections import Counter
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.openai_engine import TRIES, OpenAIEngine
from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.base.prompts import PromptFormat
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.data_curation.teacher.attempts import collect_attempts, problem_prompts
from ratchet.verifiers.errors import RatchetError
from tests.infra.tiny_endpoint import Running, RunningHandler

TEXT = "The answer is \\boxed{12}."
ANSWER: dict[str, Any] = {"choices": [{"delta": {"content": TEXT}, "finish_reason": None}]}
STOP: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def counted(usage: Any) -> list[Any]:
    return [ANSWER, STOP, {"choices": [], "usage": usage}]


def choice(**fields: Any) -> list[Any]:
    return [{"choices": [{"delta": {"content": TEXT}, "finish_reason": "stop"} | fields]}]


USAGE: dict[str, Any] = {"completion_tokens": 9, "prompt_tokens": 5}
GOOD = counted(USAGE)
WITHOUT_A_COUNT = {  # whole answers, whose tokens nothing counts
    "no usage": [ANSWER, STOP],
    "usage null": counted(None),
    "usage text": counted("9 tokens"),
    "usage list": counted([9]),
    "usage number": counted(9),
    "usage empty": counted({}),
    "tokens null": counted({"completion_tokens": None}),
    "tokens negative": counted({"completion_tokens": -5, "prompt_tokens": -1}),
    "tokens NaN": counted({"completion_tokens": float("nan"), "prompt_tokens": float("nan")}),
    "tokens infinite": counted({"completion_tokens": float("inf")}),
    "tokens text": counted({"completion_tokens": "9"}),
    "tokens broken": counted({"completion_tokens": 9.5}),
    "tokens true": counted({"completion_tokens": True}),
    "tokens beyond 32 bits": counted({"completion_tokens": 2**40}),
    "tokens nested": counted({"completion_tokens": {"text": 9}}),
    "tokens zero": counted({"completion_tokens": 0}),
}
WHOLE = {  # unusual answers, whole and counted
    "plain": GOOD,
    "tokens as a float": counted({"completion_tokens": 9.0}),
    "usage with each event": [ANSWER | {"usage": {"completion_tokens": 1}}, STOP, {"choices": [], "usage": USAGE}],
    "usage then null": [*GOOD, {"choices": [], "usage": None}],
    "null error": [{"error": None, **ANSWER}, *GOOD[1:]],
    "a choice too many": [{"choices": [*ANSWER["choices"], {"delta": {"content": "other"}}]}, *GOOD[1:]],
}
PASSING = {  # what the endpoint does only once
    "choices missing": [{"id": 1}],
    "choices empty": [{"choices": []}],
    "choices null": [{"choices": None}],
    "choices text": [{"choices": "hello"}],
    "choice null": [{"choices": [None]}],
    "delta text": choice(delta=TEXT),
    "delta list": choice(delta=[TEXT]),
    "content number": choice(delta={"content": 12}),
    "content zero": choice(delta={"content": 0}),
    "content of numbers": choice(delta={"content": [1, 2]}),
    "thought number": choice(delta={"content": TEXT, "reasoning_content": 3}),
    "finish_reason missing": [ANSWER, {"choices": [], "usage": USAGE}],
    "finish_reason number": choice(finish_reason=1),
    "finish_reason list": choice(finish_reason=["stop"]),
    "event null": [None],
    "event number": [3],
    "event list": [[ANSWER]],
    "deep": ["[" * 100_000],
    "error with half a character": [{"error": {"message": "no \ud800"}}],
}
NEVER = {  # what it does each time: (events, finish reason of the attempt)
    "finish_reason never": ([ANSWER, {"choices": [], "usage": USAGE}], "error"),
    "always an error with half a character": ([{"error": {"message": "no \ud800"}}], "error"),
    "refusal with half a character": ([*choice(delta={"refusal": "no \ud800"})], "refused"),
    "finish_reason unknown": (choice(finish_reason="content_filter \ud800"), "refused"),
}
EVERY = WHOLE | WITHOUT_A_COUNT | PASSING | {kind: events for kind, (events, _) in NEVER.items()}


class Misbehaving(Running):
    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    def answer(self, handler: RunningHandler, body: bytes) -> None:
        kind = json.loads(body)["messages"][-1]["content"]
        self.asked[kind] += 1
        events = GOOD if kind in PASSING and self.asked[kind] > 1 else EVERY[kind]
        self.answered[kind] += events is GOOD or kind in WITHOUT_A_COUNT or kind in WHOLE
        handler.begin_stream()
        for event in events:
            handler.chunk(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())
        handler.chunk(b"data: [DONE]\n\n")
        handler.chunk(b"")


@pytest.fixture
def server():
    server = Misbehaving()
    yield server
    server.close()


def ask(server: Misbehaving, kinds, directory, attempts: int = 1, notes: list[str] | None = None) -> dict[str, dict]:
    problems = to_table([{"problem_id": kind, "domain": "math", "prompt": kind} for kind in kinds])
    teacher = Teacher(kind="openai", model="m", attempts=attempts, max_tokens=64, concurrency=4)
    engine = OpenAIEngine("m", server.url, concurrency=4, backoff_s=0.001)
    tell = (notes if notes is not None else []).append
    output = directory / "attempts.parquet"
    prompts = problem_prompts(lambda: [problems], PromptFormat(math="{prompt}"))
    try:
        collect_attempts(prompts, engine, teacher, directory / "journal.jsonl", 0, output, note=tell)
    finally:
        engine.close()
    return {row["problem_id"]: row for row in pq.read_table(output).to_pylist()}


def test_no_answer_blocks_a_run_and_none_is_answered_twice(server, tmp_path):
    assert len(EVERY) >= 36
    failing = [kind for kind, (_, reason) in NEVER.items() if reason == "error"]
    kinds = [kind for kind in EVERY if kind not in failing[1:]]  # of one problem, all attempts may fail
    notes: list[str] = []
    rows = ask(server, kinds, tmp_path, notes=notes)
    for kind in (*WITHOUT_A_COUNT, *WHOLE, *PASSING):
        assert (rows[kind]["response"], rows[kind]["finish_reason"]) == (TEXT, "stop"), kind
        assert rows[kind]["tokens"] == 9 or kind in WITHOUT_A_COUNT, kind
        assert rows[kind]["counted_by"] == ("estimate" if kind in WITHOUT_A_COUNT else "teacher"), kind
        assert server.asked[kind] == 1 + (kind in PASSING), kind
    assert {rows[kind]["tokens"] for kind in WITHOUT_A_COUNT} == {9}, "as many characters as those that were counted"
    for kind, (_, reason) in NEVER.items():
        assert kind not in kinds or rows[kind]["finish_reason"] == reason
    assert server.asked[failing[0]] == TRIES
    assert any(f"{len(WITHOUT_A_COUNT)} of " in note and "estimated" in note for note in notes)

    asked = server.asked.copy()
    assert ask(server, kinds, tmp_path) == rows
    again = server.asked - asked
    assert set(again) == NEVER.keys() & set(kinds), "only what was not answered is asked again"
    assert set(server.answered.values()) <= {0, 1}


def test_a_journal_of_such_answers_from_an_earlier_version_is_read(server, tmp_path):
    ask(server, WHOLE, tmp_path)
    journal = tmp_path / "journal.jsonl"
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    for record, tokens in zip(records, (None, -5, float("nan"), "9", 2**40, 9), strict=True):
        record |= {"tokens": tokens, "prompt_tokens": tokens}
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))
    asked = server.asked.total()
    rows = ask(server, WHOLE, tmp_path)
    assert server.asked.total() == asked and [row["tokens"] for row in rows.values()] == [9] * len(WHOLE)
    journal.write_text(journal.read_text() + json.dumps({"key": "k", "response": None, "finish_reason": "stop"}) + "\n")
    with pytest.raises(RatchetError, match=rf"journal\.jsonl, line {len(WHOLE) + 1}: not an answer"):
        ask(server, WHOLE, tmp_path)


def test_an_endpoint_that_never_counts_is_named_and_its_answers_are_kept(server, tmp_path):
    with pytest.raises(RatchetError, match=r"counts no tokens.*tokenizer.* 3 of 3 answers"):
        ask(server, list(WITHOUT_A_COUNT)[:3], tmp_path)
    rows = ask(server, [*list(WITHOUT_A_COUNT)[:3], "plain"], tmp_path)
    assert {row["tokens"] for row in rows.values()} == {9} and set(server.asked.values()) == {1}
