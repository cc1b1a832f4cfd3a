"""Prompts of problems, as text and as token ids, for training, evaluation and the teacher."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from inspect import signature
from typing import Any

from pydantic import ConfigDict, JsonValue

from ratchet.data_curation.base.section import Section
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem


class PromptFormat(Section):
    """Format of the chat that is made from a problem. Fields besides those below are templates of the user turn by
    name, which replace the domains': `{prompt}`, `{starter_code}` and, for code, `{examples}` (the first test) and
    `{tests}` (all of them) are filled in, then the chat template is applied."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    system_prompt: str = ""
    """The system turn before each user turn; "": none but what the chat template adds itself."""
    response_prefix: str = ""
    """Text given to the model as the response's start; R1 distills start inside `<think>`."""
    chat_template_kwargs: dict[str, JsonValue] = {}
    """Values for the model's chat template, such as Qwen3's `{enable_thinking: false}`."""

    @property
    def templates(self) -> dict[str, str]:
        """The templates by name."""
        return self.__pydantic_extra__ or {}

    @property
    def around(self) -> dict[str, str]:
        """The settings that change a prompt around its user turn, as text, without those that are not given."""
        values = json.dumps(self.chat_template_kwargs, sort_keys=True) if self.chat_template_kwargs else ""
        settings = {"system_prompt": self.system_prompt, "chat_template_kwargs": values}
        return {name: text for name, text in settings.items() if text}

    def turns(self, message: str) -> list[dict[str, str]]:
        """The messages of a prompt with this user turn."""
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        return [*system, {"role": "user", "content": message}]


def template_fault(template: str, placeholders: Collection[str]) -> str:
    """The reason why a text is not a template with these placeholders; "" if it is one."""
    try:
        filled = template.format(**dict.fromkeys(placeholders, "\0"))
    except (LookupError, ValueError, AttributeError) as error:
        name = error.args[0] if isinstance(error, KeyError) else ""
        return f"{{{name}}} is not filled in, only {_braced(placeholders)}; double the braces of \\boxed{{{{}}}}"
    if "\0" in filled:
        return ""
    return f"it has none of {_braced(placeholders)}, so that every problem would be asked alike"


def _braced(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


def user_message(problem: Problem, prompt_format: PromptFormat) -> str:
    """The user turn: the filled-in template of the recipe, or else of the domain."""
    domain = domain_of(problem.domain)
    name = domain.template(problem)
    template = prompt_format.templates.get(name, domain.templates[name])
    shown = {field: fill(problem) for field, fill in domain.placeholders.items() if f"{{{field}" in template}
    return template.format(**shown)


def with_templates(prompt_format: PromptFormat, domains: Iterable[str]) -> PromptFormat:
    """The format with the default templates of these domains filled in: everything that decides prompts, for an
    artifact key."""
    own = {name: text for domain in domains for name, text in domain_of(domain).templates.items()}
    return prompt_format.model_copy(update={**own, **prompt_format.templates})


def prompt_ids(tokenizer: Any, problems: Sequence[Problem], prompt_format: PromptFormat) -> list[tuple[int, ...]]:
    """Token ids of each whole prompt: chat template, generation prompt, and the recipe's response prefix."""
    return message_ids(tokenizer, [user_message(problem, prompt_format) for problem in problems], prompt_format)


def message_ids(tokenizer: Any, messages: Sequence[str], prompt_format: PromptFormat) -> list[tuple[int, ...]]:
    """Token ids of prompts whose user turns are already text. A response prefix is not added if the chat template
    already ends with it: those of R1 distills end with `<think>`."""
    if not messages:
        return []
    turns, values = [prompt_format.turns(message) for message in messages], prompt_format.chat_template_kwargs
    _check_values(tokenizer, values)
    try:
        texts = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False, **values)
    except Exception as error:  # of jinja2, which curation alone does not install
        if not prompt_format.system_prompt:
            raise
        raise RatchetError(
            f"model.prompt.system_prompt: the model's chat template refuses it ({error}). Leave it out, or put its "
            "text into a template of the user turn."
        ) from error
    prefix = prompt_format.response_prefix
    begun = [text if text.endswith(prefix) else text + prefix for text in texts]
    return [tuple(ids) for ids in tokenizer(begun, add_special_tokens=False).input_ids]


def _check_values(tokenizer: Any, values: Collection[str]) -> None:
    """Raises RatchetError for `chat_template_kwargs` that the tokenizer's chat template does not read."""
    taken = signature(tokenizer.apply_chat_template).parameters if values else ()
    for name in values:
        if name in taken or not re.search(rf"\b{re.escape(name)}\b", str(tokenizer.chat_template)):
            raise RatchetError(
                f"model.prompt.chat_template_kwargs: the model's chat template reads no value {name!r}, so it would "
                "change nothing. Correct the name, or leave it out."
            )
