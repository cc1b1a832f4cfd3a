"""Types of the numbers in recipes, each with its unit and its bounds.

A recipe file, `--set`, a form in Prefect's UI, the JSON schema and Python read the same types, and so refuse the same
numbers. Bounds are wide: they exclude what no run can mean, such as a learning rate of -1 or 1e303 steps, not what is
unusual. A number is never text, true or false; a whole number may be written 20.0 or 2e3. They are part of no
artifact's key.
"""

from datetime import date
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

T = TypeVar("T")


def _refuse_words(value: Any, wanted: str) -> None:
    if isinstance(value, bool | str | bytes):
        found = "true or false" if isinstance(value, bool) else "text"
        about = {"wanted": wanted, "found": found}
        raise PydanticCustomError("number_type", "Input should be {wanted}, not {found}", about)


def _integer(value: Any) -> Any:
    _refuse_words(value, "an integer")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    _refuse_words(value, "a number")
    if isinstance(value, int) and value.bit_length() > 1024:
        return float("inf")  # then refused as not finite
    return value


def _boolean(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise PydanticCustomError("boolean_type", "Input should be true or false, not a number")
    return value


def _day(value: Any) -> Any:
    if isinstance(value, int | float):
        raise PydanticCustomError("date_type", "Input should be a date such as 2024-08-01, not a number")
    return value


def _greedy_or_warm(temperature: float) -> float:
    if 0 < temperature < COLDEST:
        wanted = "Input should be 0 (the most likely token) or at least {coldest}"
        raise PydanticCustomError("temperature", wanted, {"coldest": COLDEST})
    return temperature


def _one_or_several(value: Any) -> str:
    return SEVERAL if isinstance(value, list | tuple) else ONE


ONE, SEVERAL, NESTED, WORD = WAYS = "(number)", "(list)", "(section)", "(word)"
"""Tags of the alternative ways to write a field; messages omit them."""
COLDEST = 0.01
"""Lowest temperature above 0: logits divided by less overflow float32's and vLLM's range."""

# After `Field`: before it, pydantic would leave the bounds out of the JSON schema.
INTEGER, NUMBER = BeforeValidator(_integer), BeforeValidator(_number)

PerEpoch = Annotated[
    Annotated[T, Tag(ONE)] | Annotated[tuple[T, ...], Field(min_length=1), Tag(SEVERAL)],
    Discriminator(_one_or_several),
]
"""A value, or a list with one for each epoch."""

Integer = Annotated[int, INTEGER]
Number = Annotated[float, Field(allow_inf_nan=False), NUMBER]
"""A number of any size, for settings of a user's function."""
Flag = Annotated[bool, BeforeValidator(_boolean)]
"""A boolean, true or false; 1 and 0 are numbers."""
Day = Annotated[date, BeforeValidator(_day)]
"""A date, never a number of seconds since 1970."""

Count = Annotated[int, Field(ge=1, le=10**9), INTEGER]
"""A number of rows, problems or traces."""
CountOrZero = Annotated[int, Field(ge=0, le=10**9), INTEGER]
Tokens = Annotated[int, Field(ge=1, le=2**24), INTEGER]
"""Tokens of a response, a prompt or a micro-batch."""
TokensOrZero = Annotated[int, Field(ge=0, le=2**24), INTEGER]
Steps = Annotated[int, Field(ge=1, le=10**7), INTEGER]
"""A number of batches, optimizer steps or validations."""
StepsOrZero = Annotated[int, Field(ge=0, le=10**7), INTEGER]
Prompts = Annotated[int, Field(ge=1, le=2**20), INTEGER]
"""Prompts of one batch."""
Rollouts = Annotated[int, Field(ge=2, le=2**16), INTEGER]
"""Responses per group, at least two: a single response has nothing to be compared with."""
Samples = Annotated[int, Field(ge=1, le=2**16), INTEGER]
"""Responses per question: n, or k, of pass@k."""
Attempts = Annotated[int, Field(ge=1, le=64), INTEGER]
"""A teacher's answers per problem."""
OpenCalls = Annotated[int, Field(ge=1, le=1000), INTEGER]
Responses = Annotated[int, Field(ge=1, le=2**20), INTEGER]
"""Responses decoded together."""
Rounds = Annotated[int, Field(ge=0, le=1024), INTEGER]
Ngram = Annotated[int, Field(ge=1, le=100), INTEGER]
"""Tokens per n-gram."""
Difficulty = Annotated[int, Field(ge=0, le=8), INTEGER]
"""Failed attempts out of eight."""
Seed = Annotated[int, Field(ge=0, lt=2**63), INTEGER]

Width = Annotated[int, Field(ge=1, le=2**20), INTEGER]
"""Width of a model's layers."""
Layers = Annotated[int, Field(ge=1, le=2**12), INTEGER]
"""A number of layers or attention heads."""
Vocabulary = Annotated[int, Field(ge=262, le=2**24), INTEGER]
"""Tokens of a new tokenizer, at least 262: 256 bytes, and six that chats and judges need."""
Rank = Annotated[int, Field(ge=1, le=2**14), INTEGER]
"""Rank of a low-rank adapter."""

Machines = Annotated[int, Field(ge=1, le=2**16), INTEGER]
Processes = Annotated[int, Field(ge=1, le=2**12), INTEGER]
"""Ranks or GPUs on one machine."""
ProcessesOrZero = Annotated[int, Field(ge=0, le=2**12), INTEGER]
DeviceIndex = Annotated[int, Field(ge=0, lt=2**12), INTEGER]
"""Index of a GPU on its machine."""
ZeroStage = Annotated[int, Field(ge=0, le=3), INTEGER]
Gibibytes = Annotated[int, Field(ge=1, le=2**20), INTEGER]
Seconds = Annotated[float, Field(ge=0.001, le=7 * 24 * 3600), NUMBER]
Minutes = Annotated[float, Field(ge=0.001, le=7 * 24 * 60), NUMBER]

Probability = Annotated[float, Field(ge=0, le=1), NUMBER]
"""A probability or a share of a whole, from 0 to 1."""
PositiveProbability = Annotated[float, Field(gt=0, le=1), NUMBER]
OpenProbability = Annotated[float, Field(gt=0, lt=1), NUMBER]
BelowOne = Annotated[float, Field(ge=0, lt=1), NUMBER]
Difference = Annotated[float, Field(ge=-1, le=1), NUMBER]
"""A difference of two probabilities."""
Weight = Annotated[float, Field(ge=1e-6, le=1e6), NUMBER]
"""A weight relative to other weights; they need not sum to one."""
LearningRate = Annotated[float, Field(ge=1e-12, le=1), NUMBER]
"""AdamW's learning rate, per optimizer step."""
WeightDecay = Annotated[float, Field(ge=0, le=10), NUMBER]
"""AdamW's decoupled weight decay."""
GradientNorm = Annotated[float, Field(ge=1e-9, le=1e12), NUMBER]
Coefficient = Annotated[float, Field(ge=0, le=100), NUMBER]
"""A coefficient of a term of the loss or the reward."""
Nats = Annotated[float, Field(ge=1e-9, le=100), NUMBER]
"""Nats per token."""
Temperature = Annotated[float, Field(ge=0, le=10), AfterValidator(_greedy_or_warm), NUMBER]
"""Temperature of evaluations and teachers; 0 takes the most likely token."""
TrainingTemperature = Annotated[float, Field(ge=COLDEST, le=10), NUMBER]
"""Temperature of rollouts, above 0 because they need chance."""
TopP = Annotated[float, Field(gt=0, le=1), NUMBER]
"""Nucleus sampling: the probability mass that is sampled from; 1 turns it off."""
LowerClip = Annotated[float, Field(ge=1e-6, le=1), NUMBER]
"""Distance below a probability ratio of 1; 1 is no lower bound."""
UpperClip = Annotated[float, Field(ge=1e-6, le=1000), NUMBER]
"""Distance above a probability ratio of 1."""
RatioCap = Annotated[float, Field(ge=1, le=1000), NUMBER]
"""Largest importance weight."""
RatioBand = tuple[Annotated[float, Field(ge=0, lt=1), NUMBER], Annotated[float, Field(gt=1, le=1000), NUMBER]]
"""Probability ratios to learn from."""
ImportanceCap = Annotated[
    Annotated[RatioCap, Tag(ONE)] | Annotated[RatioBand, Tag(SEVERAL)], Discriminator(_one_or_several)
]
RolloutSchedule = PerEpoch[Rollouts]
TemperatureSchedule = PerEpoch[TrainingTemperature]
Level = Annotated[float, Field(ge=0, le=1e6), NUMBER]
"""Difficulty as a published file states it: a level of 1 to 5, a rating of 800 to 3500."""
Price = Annotated[float, Field(ge=0, le=1e9), NUMBER]
"""A price in the currency of your bill."""
Budget = Annotated[float, Field(gt=0, le=1e12), NUMBER]
"""A ceiling in the currency of your bill."""
