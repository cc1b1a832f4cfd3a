"""A problem as one text in another trainer's data set, and a response as that trainer's functions get it.

They are here, not with the adapters, because a reward server reads such rows too (`serving.openrlhf`).
"""

import functools
import json
import re
from collections.abc import Iterable, Sequence

from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import JUDGED_FIELDS, Problem, from_judged_fields, judged_fields

COLUMN = "ratchet_problem"
LIMITS = {"time_limit_s", "memory_limit_mb"}
_PREFIX = "response_prefix"
_LONGEST = 100
_END = re.compile(r"(?:<\|[^<>|]+\|>|<｜[^<>｜]+｜>|</s>|<eos>|<end_of_turn>|<pad>)\Z")


def encode(problem: Problem, response_prefix: str = "") -> str:
    """The problem as one JSON object: the fields that a verdict depends on, and `response_prefix`, the end of the
    prompt that belongs to the response, such as `<think>`."""
    judged = domain_of(problem.domain).for_judging(problem)
    return json.dumps(judged_fields(judged) | ({_PREFIX: response_prefix} if response_prefix else {}))


@functools.lru_cache(64)  # the rollouts of a prompt follow one another; tests can be megabytes
def decode(text: str) -> tuple[Problem, str]:
    """The inverse of `encode`. Raises RatchetError that says what the row lacks."""
    try:
        fields = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise RatchetError(f"its {COLUMN} is not JSON text ({error}); `ratchet export` writes it") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("domain"), str):
        raise RatchetError(f'its {COLUMN} names no domain; the least is {{"domain": "math", "answer": "1/2"}}')
    if unknown := fields.keys() - {*JUDGED_FIELDS, _PREFIX}:
        raise RatchetError(f"its {COLUMN} has an unknown field {min(unknown)!r}; known: {', '.join(JUDGED_FIELDS)}")
    nested = {name: fields[name] for name in ("tests", "metadata") if isinstance(fields.get(name), list | dict)}
    fields |= {name: json.dumps(value) for name, value in nested.items()}
    if wrong := [name for name in fields if not isinstance(fields[name], float | int if name in LIMITS else str)]:
        raise RatchetError(
            f"the field {wrong[0]} of its {COLUMN} must be {'a number' if wrong[0] in LIMITS else 'text'}"
        )
    domain_of(fields["domain"])
    prefix = fields.pop(_PREFIX, "")
    return from_judged_fields(fields), prefix


def paired(rows: Iterable[str], responses: Iterable[str]) -> list[tuple[Problem, str]]:
    """Pairs of problems and whole responses. Raises RatchetError that names the first row that cannot be judged."""
    pairs = []
    for number, (row, response) in enumerate(zip(rows, responses, strict=True)):
        try:
            if not isinstance(row, str):
                raise RatchetError(f"its {COLUMN} is not JSON text but a {type(row).__name__}; json.dumps writes it")
            problem, prefix = decode(row)
        except RatchetError as error:
            raise RatchetError(f"Row {number} of the batch cannot be judged: {str(error).rstrip('.')}.") from error
        pairs.append((problem, prefix + response))
    return pairs


def without_end(response: str) -> str:
    """A response that was decoded with its special tokens, without those at its end: a closing fence must end its
    line."""
    end = start = len(response)
    while (end := _without_space(response, end)) and (last := _END.search(response, max(0, end - _LONGEST), end)):
        end = start = last.start()
    return response[: _without_space(response, start)] if start < len(response) else response


def _without_space(text: str, end: int) -> int:
    """The end of the text before `end` without its last white space."""
    while end and text[end - 1].isspace():
        end -= 1
    return end


def after_prompt(texts: Sequence[str], prompts: Sequence[str]) -> list[str]:
    """The responses in texts of prompt and response with special tokens. Raises RatchetError for a text that does not
    begin with its prompt."""
    responses = []
    for number, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
        if not text.startswith(prompt):
            raise RatchetError(
                f"Row {number} of the batch does not begin with its prompt, which was cut: allow longer ones."
            )
        responses.append(without_end(text[len(prompt) :]))
    return responses
