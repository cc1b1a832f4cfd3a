"""Play a rehearsal's teacher: OpenAI-compatible answers, right and wrong as often as curation's filters need."""

import json
from pathlib import Path
from random import Random
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

CHANCES = (1.0, 1.0, 0.9, 0.75, 0.9, 1.0, 0.2, 0.6, 0.0)
"""Chances of a right answer, for one problem after the other: the teacher never solves some, so that difficulty and
votes drop something."""
THOUGHTS = (40, 64, 24, 50, 40, 3, 45)
"""Words of thinking, for one problem after the other: below, between and above the limits of the length filter."""


def teacher(answers: Path) -> Starlette:
    """An application that answers from `answers`, which has a line for each problem: its prompt, a right answer or
    none, and a wrong one. The answer depends on the problem and the request's seed only."""
    problems = sorted(map(json.loads, answers.read_text().splitlines()), key=lambda problem: problem["id"])

    async def complete(request: Request) -> JSONResponse:
        body = await request.json()
        message = body["messages"][-1]["content"]
        text = _answer(problems, message, body.get("seed", 0))
        usage = {"prompt_tokens": len(message.split()), "completion_tokens": len(text.split())}
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return JSONResponse({"object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage})

    models = JSONResponse({"object": "list", "data": []})  # asked for to see that the server is up
    return Starlette(
        routes=[Route("/v1/chat/completions", complete, methods=["POST"]), Route("/v1/models", lambda _: models)]
    )


def _answer(problems: list[dict[str, Any]], message: str, seed: int) -> str:
    inside = [(len(problem["prompt"]), i) for i, problem in enumerate(problems) if problem["prompt"] in message]
    if not inside:
        return "I do not know this problem."
    _, number = max(inside)
    problem, knows = problems[number], Random(f"{number} {seed}").random() < CHANCES[number % len(CHANCES)]
    thinking = " ".join(["so"] * THOUGHTS[number % len(THOUGHTS)])
    return f"<think>\n{thinking}\n</think>\n{problem['right'] if knows and problem['right'] else problem['wrong']}"
