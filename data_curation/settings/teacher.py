"""Settings of models that are queried: a teacher, or one that is evaluated."""

from typing import ClassVar

from pydantic import field_validator, model_validator

from ratchet.data_curation.base.bounds import Attempts, Budget, OpenCalls, Price, Temperature, Tokens, TopP
from ratchet.data_curation.base.section import NotInKey, Section
from ratchet.data_curation.base.teacher_engine import TEACHERS
from ratchet.verifiers.errors import RatchetError


class Endpoint(Section):
    """A model behind an OpenAI-compatible endpoint."""

    model: str = ""
    """The model's name at the endpoint."""
    base_url: NotInKey[str | None] = None
    """The address of a server, or of a router in front of several, e.g. http://127.0.0.1:8000/v1. Default: OpenAI's."""
    api_key_env: NotInKey[str] = "OPENAI_API_KEY"
    """The environment variable with the API key, never the key itself."""
    concurrency: NotInKey[OpenCalls] = 64
    """Largest number of open calls."""


class TeacherDetails(Section):
    """Rarely needed settings of a teacher."""

    tokenizer: str = ""
    """A directory with tokenizer.json, or a Hub name: counts tokens where the endpoint does not."""
    prices: NotInKey[tuple[Price, Price]] = (0.0, 0.0)
    """Prices of a million prompt tokens and a million response tokens, in the currency of your bill."""
    max_cost: NotInKey[Budget | None] = None
    """Ceiling for the cost of all answers, including earlier runs; no call begins that is expected to exceed it."""


class Teacher(Endpoint):
    """A model that answers each problem several times: its answers vote, and its failures measure difficulty."""

    expected_tokens: ClassVar[int] = 8000
    """Tokens per answer of a reasoning model, for the cost estimate until answers arrive."""

    kind: str = "none"
    """`none`, `openai`, or the import path of your own engine (`data_curation.base.teacher_engine.TeacherEngine`)."""
    attempts: Attempts = 8
    """Answers per problem; difficulty is scaled to eight, as in the paper. More may be requested later: the journal
    keeps those that were paid for."""
    temperature: Temperature = 0.6
    """Sampling temperature; the default is DeepSeek-R1's recommendation, as is `top_p`."""
    top_p: TopP = 0.95
    """Nucleus sampling; 1 turns it off."""
    max_tokens: Tokens = 32768
    """Longest answer in tokens; the default is the paper's longest response."""
    advanced: TeacherDetails = TeacherDetails()
    """Rarely needed settings."""

    @model_validator(mode="after")
    def _counts_costs(self) -> "Teacher":
        if self.advanced.max_cost is not None and not any(self.advanced.prices):
            raise ValueError("advanced.max_cost needs advanced.prices: without them every answer costs nothing")
        return self

    @field_validator("kind")
    @classmethod
    def _exists(cls, kind: str) -> str:
        try:
            if kind != "none" and kind not in TEACHERS.shipped:
                TEACHERS.get(kind)
        except RatchetError as error:
            raise ValueError(str(error)) from error
        return kind
