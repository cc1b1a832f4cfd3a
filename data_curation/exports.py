"""Curated problems in the formats of other trainers.

verl: `data_source`, `prompt` (a chat), `ability`, `reward_model` {style, ground_truth} and `extra_info`. `data_source`
selects verl's reward function; tests of code are JSON `{"inputs", "outputs", "fn_name"?}`, arguments one JSON value per
line. TRL: a prompt-only data set, `prompt` as a chat, and columns that reward functions get by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ratchet.infra.recipe.model import PromptFormat
from ratchet.infra.recipe.prompts import user_message
from ratchet.infra.store.problem_table import PROBLEM_SCHEMA, as_row
from ratchet.verifiers.domain import NotExpressible
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.problem import Problem

Row = dict[str, Any]
_CHAT = pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_string())]))
_SHARED = [
    ("problem_id", pa.string()),
    ("source", pa.string()),
    ("source_url", pa.string()),
    ("difficulty", pa.int32()),
    ("entry_point", pa.string()),
    ("starter_code", pa.large_string()),
]
VERL_SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", _CHAT),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.large_string())])),
        ("extra_info", pa.struct([("split", pa.string()), ("index", pa.int64()), *_SHARED])),
    ]
)
TRL_SCHEMA = pa.schema([("prompt", _CHAT), ("answer", pa.large_string()), ("tests", pa.large_string()), *_SHARED])


@dataclass(frozen=True)
class Export:
    schema: pa.Schema
    convert: Callable[[Problem, int, PromptFormat, str], Row]
    """From (problem, its number, prompt, verl's reward function or "" for the domain's). Raises NotExpressible."""


def to_verl(problem: Problem, index: int, prompt: PromptFormat, data_source: str = "") -> Row:
    domain = domain_of(problem.domain)
    truth, reward = domain.ground_truth(problem), data_source or domain.verl_reward
    if not reward:
        raise NotExpressible(f"verl has no reward function for {problem.domain}; name yours with --data-source")
    return {
        "data_source": reward,
        "prompt": [{"role": "user", "content": user_message(problem, prompt)}],
        "ability": problem.domain,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": index} | _shared(problem),
    }


def to_trl(problem: Problem, index: int, prompt: PromptFormat, data_source: str = "") -> Row:
    chat = [{"role": "user", "content": user_message(problem, prompt)}]
    return {"prompt": chat, "answer": problem.answer, "tests": problem.tests} | _shared(problem)


def to_ratchet(problem: Problem, index: int, prompt: PromptFormat, data_source: str = "") -> Row:
    return as_row(problem)


EXPORTS = {
    "verl": Export(VERL_SCHEMA, to_verl),
    "trl": Export(TRL_SCHEMA, to_trl),
    "ratchet": Export(PROBLEM_SCHEMA, to_ratchet),
}


def _shared(problem: Problem) -> Row:
    return {name: getattr(problem, name) for name, _ in _SHARED}
