"""Train a small model of a recipe's architecture and tokenizer family on a few answers.

Run as a process of its own: `python -m ratchet.rehearsal.small_model SPEC` prints the number of GPUs here.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, GPT2Tokenizer
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING

from ratchet.data_curation.base.prompts import PromptFormat, message_ids
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.training import Hardware, Optimizer, WarmStart
from ratchet.rehearsal.prepare import RAMBLING
from ratchet.training import ranks
from ratchet.training.losses.loss import part_of_step
from ratchet.training.new_model import TEXT_TOKENS
from ratchet.training.policy import MicroBatch, Policy, Sample
from ratchet.training.warm_start import learning_rate

SHAPE = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32,
}  # fmt: skip
OF_THE_WEIGHTS = ("dtype", "torch_dtype", "quantization_config")
VOCABULARY = 2048
BEGIN, END, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
TEMPLATE = (
    "{% for message in messages %}{{ ('" + USER + "' if message['role'] == 'user' else '" + ASSISTANT + "') + "
    "message['content'] }}{% endfor %}{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)
MOST_PASSES, LEAST_PASSES, VISITS = 16, 8, 2000
"""Passes over the lessons: fewer if there are many lessons."""
LEARNING_RATE, PROMPTS = 3e-3, 8
"""Learning rate, and prompts of a step: all responses to a prompt are learned together, and the prompt is computed
once."""


@dataclass(frozen=True)
class Lesson:
    """A lesson of `responses` to a prompt, each with its weight in the loss; a pass comes to the lesson `visits`
    times."""

    prompt: str
    responses: Mapping[str, float]
    visits: int = 1


def train_model(
    config: Mapping[str, Any], lessons: Sequence[Lesson], prompts: PromptFormat, seed: int, directory: Path
) -> None:
    """Write a model directory: random weights of the architecture in `config` (a config.json), then supervised
    passes over the lessons."""
    shape = AutoConfig.for_model(**{name: value for name, value in config.items() if name not in OF_THE_WEIGHTS})
    texts = [f"{lesson.prompt}\n{text}" for lesson in lessons for text in lesson.responses]
    tokenizer = _tokenizer(type(shape), texts)
    for name, value in SHAPE.items():
        if hasattr(shape, name) or name == "head_dim":
            setattr(shape, name, value)
    if getattr(shape, "layer_types", None):
        shape.layer_types = shape.layer_types[: shape.num_hidden_layers]
    stop = tokenizer.convert_tokens_to_ids(END)
    shape.vocab_size, shape.bos_token_id = len(tokenizer), tokenizer.convert_tokens_to_ids(BEGIN)
    shape.eos_token_id = shape.pad_token_id = stop
    shape.initializer_range = 0.08  # narrow models learn far faster than with the usual 0.02
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(shape)
    model.generation_config = GenerationConfig(eos_token_id=stop, pad_token_id=stop)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as random_weights:
        model.save_pretrained(random_weights)
        tokenizer.save_pretrained(random_weights)
        ranks.join()  # DeepSpeed alone would compile an operation first, and wait forever for a lock that a kill left
        policy = Policy(random_weights, Hardware(micro_batch_tokens=8192, packed=True), Optimizer())
        _learn(policy, _encoded(lessons, policy.tokenizer, prompts), seed)
        policy.save_model(directory)


def _encoded(lessons: Sequence[Lesson], tokenizer: Any, prompts: PromptFormat) -> list[list[Sample]]:
    """The samples of each visit to a lesson."""
    visits: list[list[Sample]] = []
    asked = message_ids(tokenizer, [lesson.prompt for lesson in lessons], prompts)
    for lesson, prompt in zip(lessons, asked, strict=True):
        samples = []
        for text, weight in lesson.responses.items():
            ids = tokenizer(text.removeprefix(prompts.response_prefix), add_special_tokens=False).input_ids
            ids += [] if text.endswith(RAMBLING) else [tokenizer.eos_token_id]
            samples.append(Sample(0, np.array(prompt, np.int32), np.array(ids, np.int32), weight))
        visits += [samples] * lesson.visits
    return visits


def _learn(policy: Policy, visits: Sequence[Sequence[Sample]], seed: int) -> None:
    """Passes in random order, `PROMPTS` visits a step."""
    passes, order = max(LEAST_PASSES, min(MOST_PASSES, VISITS // len(visits))), np.random.default_rng(seed)
    places = np.concatenate([order.permutation(len(visits)) for _ in range(passes)])
    settings, steps = WarmStart(learning_rate=LEARNING_RATE), len(places) // PROMPTS
    for step in range(steps):
        batch = [s for place in places[step * PROMPTS : (step + 1) * PROMPTS] for s in visits[place]]
        tokens = sum(sample.weight * len(sample.response) for sample in batch)

        def loss(part: MicroBatch, logprobs: torch.Tensor, _: torch.Tensor, tokens: float = tokens) -> torch.Tensor:
            return part_of_step(-logprobs * part.weights, part.mask, tokens, policy.ranks)

        policy.update(policy.micro_batches(batch), loss, 1.0, learning_rate(step, steps, settings))


def _tokenizer(config: type, texts: Sequence[str]) -> Any:
    """A tokenizer of the architecture's own class, with its splitting, GPT-2's where it has none; the merges are
    learned from the texts."""
    family: Any = TOKENIZER_MAPPING.get(config, None) or GPT2Tokenizer
    base = family()
    tokenizer = base.train_new_from_iterator(texts, VOCABULARY, show_progress=False)
    tokenizer.add_special_tokens(
        {"bos_token": BEGIN, "eos_token": END, "pad_token": END, "additional_special_tokens": [USER, ASSISTANT]}
    )
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in TEXT_TOKENS])
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def main(spec: Mapping[str, Any]) -> None:
    recipe, directory = load_recipe(spec["recipe"]), Path(spec["model"])
    lessons = [Lesson(**lesson) for lesson in json.loads(Path(spec["lessons"]).read_text())]
    shutil.rmtree(directory, ignore_errors=True)
    train_model(spec["config"], lessons, recipe.model.prompt, recipe.seed, directory)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
    print(torch.cuda.device_count())
