"""The cost of a teacher's answers: estimated before the first call, corrected with each answer, kept below a
ceiling."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ratchet.data_curation.base.protocol import says_nothing
from ratchet.data_curation.settings.teacher import Teacher

CHARACTERS_PER_TOKEN = 3.5
"""Characters per token of English with formulas; used until the endpoint has counted prompt tokens itself."""
MILLION = 1_000_000


class Bill(Mapping[str, float]):
    """The account of one step that needs `answers` answers, to prompts of `characters` characters in all, including
    those of earlier runs. `traffic` is the engine's count of its calls.

    As a mapping, it holds the figures that the terminal shows while calls are open, computed each time they are
    read."""

    def __init__(self, teacher: Teacher, answers: int, characters: int, traffic: Any = None) -> None:
        self.teacher, self.traffic = teacher, traffic
        self.answers, self._characters = answers, characters
        self.answered = self.prompt_tokens = self.response_tokens = self.truncated = self.empty = 0
        self.uncounted = 0  # answers without a number of tokens
        self._counted = 0  # answers whose endpoint counted the prompt
        self._now = 0  # response tokens of this run
        self._began = time.monotonic()

    def add(self, facts: Mapping[str, Any], now: bool) -> None:
        """Count one answer. With `now`, it arrived in this run."""
        self.answered += 1
        self.empty += says_nothing(facts["response"], facts["finish_reason"])
        self.truncated += facts["finish_reason"] == "length"
        self.response_tokens += facts["tokens"] or 0
        self.uncounted += facts["tokens"] is None
        self._now += (facts["tokens"] or 0) * now
        if facts.get("prompt_tokens"):
            self.prompt_tokens += facts["prompt_tokens"]
            self._counted += 1

    @property
    def tokens_per_answer(self) -> float:
        if self.response_tokens:
            return self.response_tokens / (self.answered - self.uncounted)
        return min(self.teacher.expected_tokens, self.teacher.max_tokens)

    @property
    def prompt_tokens_per_answer(self) -> float:
        if self._counted:
            return self.prompt_tokens / self._counted
        return self._characters / max(1, self.answers) / CHARACTERS_PER_TOKEN

    @property
    def cost_per_answer(self) -> float:
        return self._price(self.prompt_tokens_per_answer, self.tokens_per_answer)

    @property
    def cost(self) -> float:
        """The cost of all answers so far, and of this run's interrupted calls."""
        lost_calls, lost_pieces = (getattr(self.traffic, name, 0) for name in ("lost_calls", "lost_pieces"))
        uncounted = (self.answered - self._counted + lost_calls) * self.prompt_tokens_per_answer
        response_tokens = self.response_tokens + self.uncounted * self.tokens_per_answer
        return self._price(self.prompt_tokens + uncounted, response_tokens + lost_pieces)

    @property
    def expected_cost(self) -> float:
        return self.cost + (self.answers - self.answered) * self.cost_per_answer

    @property
    def priced(self) -> bool:
        return any(self.teacher.advanced.prices)

    def affords(self, open_calls: int) -> bool:
        """True if one more call, beyond the open ones, is expected to stay below the ceiling."""
        ceiling = self.teacher.advanced.max_cost
        return ceiling is None or self.cost + (open_calls + 1) * self.cost_per_answer <= ceiling

    def _price(self, prompt_tokens: float, response_tokens: float) -> float:
        of_prompt, of_response = self.teacher.advanced.prices
        return (prompt_tokens * of_prompt + response_tokens * of_response) / MILLION

    def estimate(self) -> str:
        """The estimate as one sentence, before the first call."""
        missing = self.answers - self.answered
        if not missing:
            return f"all {self.answers:,} answers are stored; nothing to request."
        text = f"{missing:,} of {self.answers:,} answers to request"
        text += " (the others are stored)" if self.answered else ""
        prompt, response = missing * self.prompt_tokens_per_answer, missing * self.tokens_per_answer
        text += f"; about {_count(prompt)} prompt and {_count(response)} response tokens"
        if self.priced:
            text += f", about {money(missing * self.cost_per_answer)}"
            text += f" in addition to {money(self.cost)} already paid" if self.answered else ""
        if self.teacher.advanced.max_cost is not None and self.expected_cost > self.teacher.advanced.max_cost:
            text += f"; more than max_cost {money(self.teacher.advanced.max_cost)}: will stop there"
        return text + "."

    def totals(self) -> dict[str, float]:
        """Totals for the manifest, once all answers have arrived."""
        sums = {"answers": self.answered, "truncated": self.truncated, "response_tokens": self.response_tokens}
        sums |= {"empty_answers": self.empty} if self.empty else {}
        sums |= {"uncounted_answers": self.uncounted} if self.uncounted else {}
        if self._counted == self.answered:
            sums["prompt_tokens"] = self.prompt_tokens
        if self.traffic is not None:
            sums |= {"calls": self.traffic.calls, "calls_broken_off": self.traffic.lost_calls}
        return sums | ({"cost": round(self.cost, 6)} if self.priced else {})

    def summary(self) -> str:
        """The totals as one line: tokens, shares, cost."""
        text = f"{_count(self.response_tokens)} tokens"
        text += f", {self.truncated / max(1, self.answered):.1%} truncated" if self.truncated else ""
        text += f", {self.empty:,} empty" if self.empty else ""
        return text + (f", cost {money(self.cost)}" if self.priced else "")

    def __getitem__(self, name: str) -> float:
        return self._shown()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shown())

    def __len__(self) -> int:
        return len(self._shown())

    def _shown(self) -> dict[str, float]:
        seconds = max(1e-9, time.monotonic() - self._began)
        shown = {"tokens_per_second": max(self._now, getattr(self.traffic, "pieces", 0)) / seconds}
        shown |= {"open_calls": self.traffic.open} if self.traffic is not None else {}
        return shown | ({"cost": self.cost, "expected_cost": self.expected_cost} if self.priced else {})


def money(amount: float) -> str:
    """An amount with two decimals, or four below 1."""
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.4f}"


def _count(tokens: float) -> str:
    if tokens < 10_000:
        return f"{tokens:,.0f}"
    return f"{tokens / MILLION:,.1f}M" if tokens >= MILLION else f"{tokens / 1000:,.0f}K"
