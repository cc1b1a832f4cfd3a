"""A Hugging Face causal language model from disk or the hub, checked for what would go wrong hours later."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from ratchet.infra.errors import RatchetError
from ratchet.infra.hub import hub_address, hub_answers

KNOWN_MODELS = Path(__file__).with_name("known_models.yaml")


def read_model(path: str, dtype: str) -> tuple[Any, Any]:
    """(model, tokenizer) of a directory or hub name. Raises RatchetError when they cannot be read or do not fit."""
    tokenizer = _read(AutoTokenizer, path)
    model, found = _read(
        AutoModelForCausalLM, path, dtype=getattr(torch, dtype), output_loading_info=True, ignore_mismatched_sizes=True
    )
    # transformers fills what it does not find with random numbers, and goes on.
    refuse_weights(path, found["missing_keys"], (name for name, *_ in found["mismatched_keys"]))
    _check(path, tokenizer, model.get_input_embeddings().weight.shape[0], model.generation_config)
    return model, tokenizer


def check_model(path: str) -> Any:
    """The same checks without the weights, where they are read otherwise, or not yet. Returns the tokenizer."""
    tokenizer, config = _read(AutoTokenizer, path), read_config(path)
    if Path(path).is_dir() and not any(file.suffix in (".safetensors", ".bin") for file in Path(path).iterdir()):
        raise RatchetError(f"{path} cannot be used: there are no weights (*.safetensors) in it")
    _check(path, tokenizer, config.get_text_config().vocab_size, read_generation_config(path))
    return tokenizer


def read_config(path: str) -> Any:
    """The configuration of a directory or hub name; where the Hub does not answer, of a model that shipped recipes
    start from, its shape alone (known_models.yaml). Raises RatchetError when it cannot be read."""
    try:
        return _read(AutoConfig, path)
    except RatchetError:
        known = yaml.safe_load(KNOWN_MODELS.read_text()).get(path)
        if known is None or hub_answers():
            raise
        return AutoConfig.for_model(**known)


def read_generation_config(path: str) -> GenerationConfig:
    """The defaults where it has none."""
    try:
        return GenerationConfig.from_pretrained(path)
    except OSError:
        return GenerationConfig()


def weight_files(path: str) -> dict[str, Path]:
    """By the name of each weight, the safetensors file that it is in. Raises RatchetError when one cannot be read."""
    from huggingface_hub import snapshot_download

    try:
        if Path(path).is_dir():
            directory = Path(path)
        else:
            patterns = ["model*.safetensors"]
            directory = Path(snapshot_download(path, allow_patterns=patterns, local_files_only=not hub_answers()))
        found = {}
        for file in sorted(directory.glob("model*.safetensors")):
            with safe_open(file, "pt") as weights:
                found |= dict.fromkeys(weights.keys(), file)
        return found
    except Exception as error:  # of the Hub's client or of safetensors
        raise unreadable(path, error) from error


def refuse_weights(path: str, missing: Iterable[str], misshapen: Iterable[str]) -> None:
    """Raises RatchetError where there is any."""
    wrong = [f"{name} is not among them" for name in sorted(missing)]
    wrong += [f"{name} has another shape" for name in sorted(misshapen)]
    if wrong:
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise RatchetError(f"{path}: its weights are not those of the model in its config.json: {wrong[0]}{more}")


def _read(kind: Any, path: str, **options: Any) -> Any:
    where = {} if Path(path).is_dir() or hub_answers() else {"local_files_only": True}
    try:
        return kind.from_pretrained(path, **options, **where)
    except Exception as error:  # of each file format's own kind
        raise unreadable(path, error) from error


def stop_token_ids(generation_config: Any, tokenizer: Any) -> list[int]:
    """Every id that ends a response: all of the generation configuration's, and the tokenizer's."""
    configured = getattr(generation_config, "eos_token_id", None)
    ids = [configured] if isinstance(configured, int) else list(configured or ())
    return list(dict.fromkeys([*ids, tokenizer.eos_token_id]))


def unreadable(path: str, error: Exception) -> RatchetError:
    told = " ".join(str(error).split())[:300]
    if path[:1] in ("/", ".", "~") and not Path(path).is_dir():
        told = "there is no such directory"
    elif Path(path).is_dir() and not (Path(path) / "config.json").is_file():
        told = "there is no config.json in it"
    elif not Path(path).is_dir() and not hub_answers():
        told = f"it is not (all) in the Hub's cache, and {hub_address()} does not answer"
    return RatchetError(f"cannot read a causal language model from {path}: {told}")


def _check(path: str, tokenizer: Any, rows: int, generation_config: Any) -> None:
    """Raises RatchetError where the model would fail later, or learn something else. `rows`: of its embedding."""
    # Nothing here is padded with the padding token, and many models have it added to the tokenizer alone.
    largest = max(set(tokenizer.get_vocab().values()) - {tokenizer.pad_token_id}, default=-1)
    if largest < 0:
        reason = (
            "there is no tokenizer in it: copy tokenizer.json and tokenizer_config.json from the model it comes from"
        )
    elif largest >= rows:
        reason = (
            f"its tokenizer has ids up to {largest}, and its embedding only {rows} rows: this is the tokenizer of "
            "another model"
        )
    elif tokenizer.eos_token_id is None:
        reason = "its tokenizer names no end-of-sequence token: set eos_token in tokenizer_config.json"
    elif (stop := max(stop_token_ids(generation_config, tokenizer))) >= rows:
        reason = f"generation_config.json ends responses with id {stop}, and its embedding has {rows} rows only"
    elif not tokenizer.chat_template:
        reason = "its tokenizer has no chat template, so there is no way to ask it: add chat_template.jinja"
    else:
        return
    raise RatchetError(f"{path} cannot be used: {reason}")
