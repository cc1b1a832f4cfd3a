"""From a YAML file and `--set` overrides to a checked `Recipe`, with errors that name the field and the fix."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from ratchet.infra.errors import RatchetError
from ratchet.infra.recipe.model import Recipe

SHIPPED = Path(__file__).resolve().parents[2] / "recipes"


def load_recipe(path: str | Path, overrides: tuple[str, ...] | list[str] = ()) -> Recipe:
    """Read a recipe file (or a shipped one by its bare name), apply `key.path=value` overrides, and validate.

    Raises RatchetError that names the file, the field, what was given, and the nearest valid name of a misspelt key.
    """
    file = _resolve(path)
    data = _read(file)
    for override in overrides:
        _override(data, override)
    return validate_recipe(data, str(file))


def _read(file: Path, reading: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A recipe file's content; one that says `extends: OTHER` is that other recipe with its own sections laid over it
    and then its `set` overrides."""
    try:
        data = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise RatchetError(f"{file} is not valid YAML: {error}") from error
    except OSError as error:
        raise RatchetError(f"Cannot read the recipe {file}: {error.strerror}.") from error
    if not isinstance(data, dict):
        raise RatchetError(f"{file}: a recipe is a mapping of sections (name, curation, training, …), not {data!r}.")
    if "extends" not in data:
        return data
    if file in reading:
        raise RatchetError(f"{file} extends itself, by way of {reading[-1]}.")
    overrides = data.pop("set", None) or []
    data = _laid_over(_read(_resolve(data.pop("extends")), (*reading, file)), data)
    for override in overrides:
        _override(data, override)
    return data


def _laid_over(base: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Sections merge, anything else replaces."""
    merged = dict(base)
    for key, value in data.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _laid_over(merged[key], value) if both else value
    return merged


def validate_recipe(data: dict[str, Any], where: str) -> Recipe:
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        problems = "\n".join(f"  {_explain(e)}" for e in error.errors())
        raise RatchetError(f"{where} is not a valid recipe:\n{problems}") from error


def _resolve(path: str | Path) -> Path:
    for candidate in (Path(path), SHIPPED / f"{path}", SHIPPED / f"{path}.yaml"):
        if candidate.is_file():
            return candidate
    shipped = sorted(str(p.relative_to(SHIPPED).with_suffix("")) for p in SHIPPED.rglob("*.yaml"))
    near = difflib.get_close_matches(str(path), shipped, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise RatchetError(f"No recipe {str(path)!r}.{hint} Shipped recipes: {', '.join(shipped)}.")


def _override(data: dict[str, Any], override: str) -> None:
    """`training.stages.0.steps=20`: dots descend, numbers index lists, `*` is all of a list, the value is YAML."""
    dotted, separator, text = override.partition("=")
    if not separator:
        raise RatchetError(f"--set {override!r}: write key.path=value, e.g. --set training.stages.0.steps=20.")
    *parents, last = dotted.strip().split(".")
    nodes: list[Any] = [data]
    for position, part in enumerate(parents):
        where = ".".join(parents[: position + 1])
        nodes = [
            child
            for node in nodes
            for child in (
                [node[i] for i in _indices(node, part, override)]
                if isinstance(node, list)
                else [node.setdefault(part, {})]
            )
        ]
        for node in nodes:
            if not isinstance(node, dict | list):
                raise RatchetError(f"--set {override!r}: {where} is {node!r}, which has no fields.")
    for node in nodes:
        for key in _indices(node, last, override) if isinstance(node, list) else [last]:
            node[key] = yaml.safe_load(text)


def _indices(node: list[Any], part: str, override: str) -> list[int]:
    if part == "*":
        return list(range(len(node)))
    if not part.isdigit() or int(part) >= len(node):
        raise RatchetError(f"--set {override!r}: {part!r} must be * or a number from 0 to {len(node) - 1}.")
    return [int(part)]


def _explain(error: Any) -> str:
    location = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        *parents, wrong = error["loc"]
        valid = list(_model_at(parents).model_fields)
        near = difflib.get_close_matches(str(wrong), valid, n=1, cutoff=0.4)
        return f"{location}: unknown key. " + (
            f"Did you mean {near[0]!r}?" if near else f"Valid here: {', '.join(valid)}."
        )
    if error["type"] == "missing":
        return f"{location}: required, not given."
    given = "" if isinstance(error.get("input"), dict) else f" (given {error.get('input')!r})"
    return f"{location or 'recipe'}: {error['msg'].removeprefix('Value error, ')}{given}"


def _model_at(location: list[Any]) -> type[BaseModel]:
    """The model class that the keys at this place belong to."""
    model: type[BaseModel] = Recipe
    inside_mapping = False  # whose keys are anyone's
    for part in location:
        if isinstance(part, int) or inside_mapping:
            inside_mapping = False
            continue
        annotation = model.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
        inside_mapping = get_origin(annotation) is dict
    return model
