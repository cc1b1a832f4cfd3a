"""From a problem to the token ids of its prompt, for training, evaluation and the teacher."""

from collections.abc import Iterable, Sequence
from typing import Any

from ratchet.infra.recipe.model import PromptFormat
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.problem import Problem


def user_message(problem: Problem, prompt_format: PromptFormat) -> str:
    """The user turn: the filled-in template of the recipe, else of the domain."""
    domain = domain_of(problem.domain)
    name = domain.template(problem)
    template = prompt_format.templates.get(name, domain.templates[name])
    return template.format(prompt=problem.prompt, starter_code=problem.starter_code or "")


def with_templates(prompt_format: PromptFormat, domains: Iterable[str]) -> PromptFormat:
    """The format with the default templates of these domains filled in: everything that decides prompts, for a key."""
    own = {name: text for domain in domains for name, text in domain_of(domain).templates.items()}
    return prompt_format.model_copy(update={**own, **prompt_format.templates})


def prompt_ids(tokenizer: Any, problems: Sequence[Problem], prompt_format: PromptFormat) -> list[tuple[int, ...]]:
    """Token ids of each whole prompt: chat template, generation prompt, and the recipe's response prefix."""
    return message_ids(tokenizer, [user_message(problem, prompt_format) for problem in problems], prompt_format)


def message_ids(tokenizer: Any, messages: Sequence[str], prompt_format: PromptFormat) -> list[tuple[int, ...]]:
    """`prompt_ids` for user turns that are already text. A response prefix with which the chat template ends already is
    not added again: those of R1 distills end with `<think>`."""
    if not messages:
        return []
    turns = [[{"role": "user", "content": message}] for message in messages]
    texts = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    prefix = prompt_format.response_prefix
    begun = [text if text.endswith(prefix) else text + prefix for text in texts]
    return [tuple(ids) for ids in tokenizer(begun, add_special_tokens=False).input_ids]
