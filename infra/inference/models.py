"""Hugging Face causal language models from disk or the Hub, checked for faults that would show hours later."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from ratchet.data_curation.base.hub import hub_address, hub_answers
from ratchet.data_curation.base.prompts import PromptFormat, message_ids
from ratchet.data_curation.base.slow_calls import proxy_note
from ratchet.infra.inference import KNOWN_MODELS
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.yaml_files import load_yaml


def read_model(path: str, dtype: str) -> tuple[Any, Any]:
    """The model and the tokenizer of a directory or Hub name. Raises RatchetError if they cannot be read or do not
    match."""
    tokenizer = _read(AutoTokenizer, path)
    model, loading = _read(
        AutoModelForCausalLM, path, dtype=getattr(torch, dtype), output_loading_info=True, ignore_mismatched_sizes=True
    )
    # transformers would fill missing weights with random numbers.
    refuse_weights(path, loading["missing_keys"], (name for name, *_ in loading["mismatched_keys"]))
    _check(path, tokenizer, model.get_input_embeddings().weight.shape[0], model.generation_config)
    return model, tokenizer


def check_model(path: str) -> Any:
    """Check a model as `read_model` does, without reading its weights. Returns the tokenizer."""
    tokenizer, config = _read(AutoTokenizer, path), read_config(path)
    if Path(path).is_dir() and not any(file.suffix in (".safetensors", ".bin") for file in Path(path).iterdir()):
        raise RatchetError(f"{path} cannot be used: there are no weights (*.safetensors) in it")
    _check(path, tokenizer, config.get_text_config().vocab_size, read_generation_config(path))
    return tokenizer


def check_prompt(path: str, prompt_format: PromptFormat) -> None:
    """Raises RatchetError if the model's chat template refuses the format's system prompt, or reads none of its
    values."""
    message_ids(_read(AutoTokenizer, path), ["?"], prompt_format)


def read_config(path: str) -> Any:
    """The configuration of a directory or Hub name. If the Hub does not answer, the shape of one of the models that
    shipped recipes start from (known_models.yaml). Raises RatchetError if it cannot be read."""
    try:
        return _read(AutoConfig, path)
    except RatchetError:
        shape = load_yaml(KNOWN_MODELS).get(path)
        if shape is None or hub_answers():
            raise
        return AutoConfig.for_model(**shape)


def max_positions(config: Any) -> int | None:
    """The most tokens of a prompt and its response together; None if the model has no limit."""
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def read_generation_config(path: str) -> GenerationConfig:
    """The generation settings of a directory or Hub name; without a generation_config.json those in its config.json, as
    in transformers. Raises RatchetError if they cannot be read."""
    try:
        return GenerationConfig.from_pretrained(path, **_where(path))
    except OSError as error:  # there is none, or it is no JSON
        if (Path(path) / "generation_config.json").is_file():
            raise unreadable(path, error) from error
        return GenerationConfig.from_model_config(read_config(path))
    except (ValueError, TypeError) as error:
        raise unreadable(path, error) from error


def check_saving(path: str, generation_config: GenerationConfig) -> None:
    """Raises RatchetError for generation settings that transformers reads but does not save: the model's first
    checkpoint would fail."""
    try:
        generation_config.validate(strict=True)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        raise RatchetError(
            f"{path}: a trained model cannot be saved with its generation_config.json. Correct or delete the settings "
            f"named here (of all of them only eos_token_id is used): {reason}"
        ) from error


def weight_files(path: str) -> dict[str, Path]:
    """The safetensors file of each weight, by the weight's name. Raises RatchetError if one cannot be read."""
    from huggingface_hub import snapshot_download

    try:
        if Path(path).is_dir():
            directory = Path(path)
        else:
            patterns = ["model*.safetensors"]
            directory = Path(snapshot_download(path, allow_patterns=patterns, local_files_only=not hub_answers()))
        files = {}
        for file in sorted(directory.glob("model*.safetensors")):
            with safe_open(file, "pt") as weights:
                files |= dict.fromkeys(weights.keys(), file)
        return files
    except Exception as error:  # of the Hub's client or of safetensors
        raise unreadable(path, error) from error


def refuse_weights(path: str, missing: Iterable[str], misshapen: Iterable[str]) -> None:
    """Raises RatchetError if any of a model's weights do not fit."""
    wrong = [f"{name} is missing" for name in sorted(missing)]
    wrong += [f"{name} has another shape" for name in sorted(misshapen)]
    if wrong:
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise RatchetError(f"{path}: its weights do not match its config.json: {wrong[0]}{more}")


def _where(path: str) -> dict[str, Any]:
    return {} if Path(path).is_dir() or hub_answers() else {"local_files_only": True}


def _read(kind: Any, path: str, **options: Any) -> Any:
    try:
        return kind.from_pretrained(path, **options, **_where(path))
    except Exception as error:  # each file format has its own
        raise unreadable(path, error) from error


def stop_token_ids(generation_config: Any, tokenizer: Any) -> list[int]:
    """Every id that ends a response: those of the generation configuration and of the tokenizer."""
    configured = getattr(generation_config, "eos_token_id", None)
    ids = [configured] if isinstance(configured, int) else list(configured or ())
    return list(dict.fromkeys([*ids, tokenizer.eos_token_id]))


def unreadable(path: str, error: Exception) -> RatchetError:
    """The error for a model that cannot be read, with the likeliest reason."""
    reason, is_directory = " ".join(str(error).split())[:300], Path(path).is_dir()
    if path[:1] in ("/", ".", "~") and not is_directory:
        reason = "there is no such directory"
    elif is_directory and not (Path(path) / "config.json").is_file():
        reason = "there is no config.json in it"
    elif not is_directory and not hub_answers():
        reason = (
            f"it is not (all) in the Hub's cache, and {hub_address()}{proxy_note(hub_address())} does not answer. "
            f"`hf download {path}` where there is a network, or give the model's directory as model.path"
        )
    return RatchetError(f"cannot read a causal language model from {path}: {reason}")


def _check(path: str, tokenizer: Any, rows: int, generation_config: Any) -> None:
    """Raises RatchetError if the model would fail later or learn something else. `rows`: of its embedding."""
    # The padding token is never used here, and many models have it in the tokenizer only.
    largest = max(set(tokenizer.get_vocab().values()) - {tokenizer.pad_token_id}, default=-1)
    if largest < 0:
        reason = "there is no tokenizer in it: copy tokenizer.json and tokenizer_config.json from its original model"
    elif largest >= rows:
        reason = f"its tokenizer has ids up to {largest}, but its embedding only {rows} rows: another model's tokenizer"
    elif tokenizer.eos_token_id is None:
        reason = "its tokenizer names no end-of-sequence token: set eos_token in tokenizer_config.json"
    elif (stop := max(stop_token_ids(generation_config, tokenizer))) >= rows:
        reason = f"generation_config.json ends responses with id {stop}, but its embedding has only {rows} rows"
    elif not tokenizer.chat_template:
        reason = "its tokenizer has no chat template: add chat_template.jinja"
    else:
        return
    raise RatchetError(f"{path} cannot be used: {reason}")
