"""A loaded environment of the `verifiers` library: a test of its use here, and scores of responses.

Only where rows are made and in confined processes: loading an environment runs its author's code, which may take
seconds, read data sets, and set signal handlers.
"""

import asyncio
import importlib
import inspect
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from ratchet.verifiers.environments.library import loader_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.logic.evaluation_guard import data_only
from ratchet.verifiers.registry import Registry

LOADERS: Registry[Callable[..., Any]] = Registry("environment", {}, callable)
Message = dict[str, Any]
_NEEDS_MORE = ("env_response", "setup_state", "rollout", "get_model_response", "get_prompt_messages")
"""Methods of an environment whose rollouts are more than one prompt and one response."""
_CLIENTS = ("AsyncOpenAI", "OpenAI", "AsyncAnthropic", "Anthropic", "Client")


class _Message(Message):
    """A message with access by key, as in environments up to 0.1, and by attribute, as in later ones."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in ("reasoning_content", "thinking_blocks", "tool_calls"):
            return None
        raise AttributeError(name)


class _Inline(ThreadPoolExecutor):
    """An executor that runs tasks at once, in this process: confined processes cannot start others."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class LoadedEnvironment:
    """A loaded environment. Raises RatchetError if it cannot be loaded, or cannot be scored from a single response."""

    def __init__(self, path: str, arguments: Mapping[str, Any]) -> None:
        self._path = path
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")  # they start a thread; we fork
        self._environment = _load(path, arguments)
        if fault := self._fault():
            raise RatchetError(f"{path} cannot be used: {fault}. What can: docs/howto/environments.md.")
        rubrics = _parts(self._environment.rubric)
        self._functions = [
            (rubric, function, weight)
            for rubric in rubrics
            for function, weight in zip(rubric.funcs, rubric.weights, strict=True)
            if weight
        ]
        self._most = sum(weight for _, _, weight in self._functions if weight > 0)
        if not self._most:
            raise RatchetError(f"{path} cannot be used: none of its reward functions has a positive weight.")
        parsers = [part.parser for part in (self._environment, *rubrics)]
        fields = {name for parser in parsers for name, _ in getattr(parser, "_fields", ())}
        self._whole = "think" in fields or any(type(parser).__name__ == "ThinkParser" for parser in parsers)
        """True if a parser needs the thinking too."""
        for rubric in rubrics:
            for name, value in list(vars(rubric).items()):
                if isinstance(value, Executor):
                    setattr(rubric, name, _Inline(1))

    def rows(self, split: str) -> Iterator[tuple[list[Message], dict[str, Any]]]:
        """The messages and the remaining fields of each row of `train` or `test`; no `test` rows if the environment has
        no evaluation set."""
        environment = self._environment
        built = environment.build_dataset() if split == "train" else environment.build_eval_dataset()
        for row in built if built is not None else ():
            prompt = row.pop("prompt")
            yield [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt, row

    def score(self, messages: Sequence[Message], row: Mapping[str, Any], response: str) -> float:
        """The weighted sum of the reward functions, as a share of the maximum; 0 if it is negative. A function that
        raises gives 0, as in the library. Raises ValueError for a function that gives more than 1."""
        total = 0.0
        for name, weight, value in self.values(messages, row, response):
            if isinstance(value, Exception):
                continue
            if value != value or (weight > 0 and value > 1 + 1e-9):
                raise ValueError(f"{self._path}: its reward function {name} gave {value}; it must be at most 1")
            total += weight * value
        return min(1.0, max(0.0, total / self._most))

    def values(
        self, messages: Sequence[Message], row: Mapping[str, Any], response: str, trusted: bool = False
    ) -> list[tuple[str, float, float | Exception]]:
        """The name, weight, and value or exception of each reward function that counts. If the response is not
        `trusted`, only data and formulas in it are evaluated."""
        text = response if self._whole else (after_thinking(response) or "").lstrip()
        state = _state(messages, row, text)
        results: list[tuple[str, float, float | Exception]] = []
        for rubric, function, weight in self._functions:
            try:
                with nullcontext() if trusted else data_only():
                    value: float | Exception = float(asyncio.run(_call(rubric, function, state)))
            except MemoryError:
                raise
            except Exception as error:
                value = error
            results.append((getattr(function, "__name__", repr(function)), weight, value))
        return results

    def warm_up(self) -> None:
        """Score the first row's own answer, so that functions do the imports of their first call."""
        for messages, row in self.rows("train"):
            for response in responses_of(row):
                self.values(messages, row, response, trusted=True)
            return

    def _fault(self) -> str:
        environment, single = self._environment, _library().SingleTurnEnv
        if not isinstance(environment, single):
            return f"it is a {type(environment).__name__}, not a SingleTurnEnv: one response to one prompt is scored"
        own = [name for name in _NEEDS_MORE if getattr(type(environment), name) is not getattr(single, name)]
        if own:
            return f"its rollout is more than one response ({', '.join(own)})"
        if environment.tool_defs:
            return "it has tools"
        for rubric in _parts(environment.rubric):
            objects = {**vars(rubric), **rubric.class_objects}
            if any(kind.__name__ in _CLIENTS for value in objects.values() for kind in type(value).__mro__):
                return f"its {type(rubric).__name__} asks a judge model"
            if rubric.has_group_rewards:
                return "it scores a group of responses together"
            if type(rubric).score_rollout is not _library().Rubric.score_rollout:
                return f"its {type(rubric).__name__} has its own score_rollout"
        return ""


def responses_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The row's own answer in formats that parsers read; none of them has to be right."""
    answer = row.get("answer")
    text = answer if isinstance(answer, str) else json.dumps(answer, default=str)
    return text, f"<answer>{text}</answer>", rf"\boxed{{{text}}}"


def _library() -> ModuleType:
    return importlib.import_module("verifiers")  # no import statement: a type checker would find our folder


def _load(path: str, arguments: Mapping[str, Any]) -> Any:
    loader = LOADERS.load(loader_of(path))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return loader(**arguments)
    except Exception as error:
        raise RatchetError(
            f"The environment {path} cannot be loaded with {dict(arguments)}: {type(error).__name__}: {error}."
        ) from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _parts(rubric: Any) -> list[Any]:
    parts = getattr(rubric, "rubrics", None)
    return [rubric] if parts is None else [leaf for part in parts for leaf in _parts(part)]


def _state(messages: Sequence[Message], row: Mapping[str, Any], text: str) -> Any:
    """The final state of a rollout of one prompt and one response."""
    prompt, completion = [_Message(message) for message in messages], [_Message(role="assistant", content=text)]
    state = _library().State(input={**row, "prompt": prompt})
    step = {"prompt": prompt, "completion": completion, "response": None, "reward": None, "advantage": None}
    state.update(
        task=dict(row), completion=completion, trajectory=[step], is_completed=True, is_truncated=False, error=None
    )
    return state


async def _call(rubric: Any, function: Callable[..., Any], state: Any) -> Any:
    asyncio.get_running_loop().set_default_executor(_Inline(1))  # no other thread
    objects, parameters = rubric.score_objects(state), inspect.signature(function).parameters
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        objects = {name: value for name, value in objects.items() if name in parameters}
    result = function(**objects)
    return await result if inspect.isawaitable(result) else result
