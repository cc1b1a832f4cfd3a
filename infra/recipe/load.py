"""Load a YAML file with `--set` overrides as a checked `Recipe`, with errors that name the field and the fix."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ValidationError

from ratchet.data_curation.base.bounds import WAYS
from ratchet.infra.recipe.domains import declare_own_domains
from ratchet.infra.recipe.recipe import Recipe
from ratchet.verifiers.errors import RatchetError, nearest
from ratchet.verifiers.registry import add_to_import_path
from ratchet.verifiers.yaml_files import load_yaml

SHIPPED = Path(__file__).resolve().parents[2] / "recipes"
PATHS = ("inputs", "benchmarks", "path", "tokenizer", "files")
"""Fields of any section that hold paths."""
ON_CPU, DTYPE = "on_cpu", "training.hardware.dtype"
"""The section of a file that is laid over the rest where there is no GPU; `auto` in it stands for a type,
`cpu_dtype`."""
_LOGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@]*@", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
BOUNDS = {
    "greater_than": "greater than", "greater_than_equal": "at least", "less_than": "less than",
    "less_than_equal": "at most",
}  # fmt: skip
SHOWN = 80
"""Characters of a refused value in a message."""
FILES = (".json", ".jsonl", ".csv", ".parquet", ".gz")


def load_recipe(path: str | Path, overrides: Sequence[str] = (), fit: bool = True) -> Recipe:
    """Read a recipe file (or a shipped one by its bare name), apply `key.path=value` overrides, and validate. With
    `fit`, and without a GPU, the section `on_cpu` of a file is laid over it; `Recipe.cpu_overrides` has what it sets.

    Paths in a recipe are relative to its file, those in `overrides` to the working directory. A path that does not
    exist, is no pattern and has no data file's suffix is left as a name on the Hub. Import paths are looked up in the
    recipe's directory and in the working directory; the recipe's own domains are known from then on, in place of those
    of the recipe loaded before.

    Raises RatchetError with the file, the field, the value, and the nearest valid name of a misspelled key.
    """
    add_to_import_path(Path.cwd())
    here, cpu_overrides = fit and not has_accelerator(), dict[str, Any]()
    data = read_recipe(path, overrides, cpu_overrides if here else None)
    data.pop(ON_CPU, None)
    recipe = validate_recipe(data, str(path))
    declare_own_domains(recipe)
    return recipe.with_cpu_overrides(
        [f"{name}={value}" for name, value in cpu_overrides.items() if _at(data, name) == value]
    )


def read_recipe(
    path: str | Path, overrides: Sequence[str] = (), cpu_overrides: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The recipe after `extends`, `set` and `overrides`, not yet validated. `cpu_overrides` receives the fields that
    the sections `on_cpu` set; without it, these sections stay as they are."""
    data = _read(_resolve(path, Path()), cpu_overrides=cpu_overrides)
    for override in overrides:
        _override(data, override)
    return data


def has_accelerator() -> bool:
    """True if training would run on GPUs: of this machine, or of those that a scheduler or a launcher starts it on."""
    if os.environ.get("RATCHET_SLURM") or os.environ.get("RATCHET_LAUNCHER"):
        return True
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return False
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists() or Path("/dev/dxg").exists()


def hidden_recipe(path: str | Path) -> Path | None:
    """The local file of this name that a shipped recipe of the same name hides."""
    shipped = (SHIPPED / f"{path}.yaml").is_file()
    return next((file.resolve() for file in (Path(path), Path(f"{path}.yaml")) if shipped and file.is_file()), None)


def shipped_recipes() -> list[str]:
    """The names of the shipped recipes, as `load_recipe` takes them."""
    return sorted(str(p.relative_to(SHIPPED).with_suffix("")) for p in SHIPPED.rglob("*.yaml"))


def _read(file: Path, reading: tuple[Path, ...] = (), cpu_overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """A recipe file's content; with `extends: OTHER`, the other recipe with these sections merged over it, and then its
    `set` overrides. With `cpu_overrides`, its `on_cpu` is laid over it before a file that extends it is."""
    if SHIPPED not in file.parents:
        add_to_import_path(file.parent)
    data = _mapping(file)
    extended, overrides = data.pop("extends", None), data.pop("set", None) or []
    data = _relative_to(data, file.parent)
    if file in reading:
        raise RatchetError(f"{file} extends itself, through {reading[-1]}.")
    if extended is not None:
        if not isinstance(extended, str):
            raise RatchetError(f"{file}: `extends` is the name or the file of one recipe, not {_shortened(extended)}.")
        try:
            data = _laid_over(_read(_resolve(extended, file.parent), (*reading, file), cpu_overrides), data)
        except LookupError as error:
            raise RatchetError(f"{file}: {error.args[0]}") from error
    if not isinstance(overrides, list):
        raise RatchetError(f"{file}: `set` is a list of key.path=value, not {overrides!r}.")
    for override in overrides:
        _override(data, str(override), file.parent)
    if cpu_overrides is not None and (on_cpu := data.pop(ON_CPU, None)):
        before = data
        if not isinstance(on_cpu, dict):
            raise RatchetError(f"{file}: {ON_CPU} is a section with fields of a recipe, not {_shortened(on_cpu)}.")
        try:
            data = _laid_over(data, on_cpu)
        except LookupError as error:
            raise RatchetError(f"{file}: {ON_CPU}: {error.args[0]}") from error
        if _at(data, DTYPE) == "auto":
            data["training"]["hardware"]["dtype"] = cpu_dtype()
        cpu_overrides |= {name: _at(data, name) for name in _leaves(on_cpu) if _at(data, name) != _at(before, name)}
    return data


def cpu_dtype() -> Literal["float32", "bfloat16"]:
    """The faster type on this CPU: with instructions for bfloat16, it takes about half the time of float32; without
    them, it takes longer."""
    facts = Path("/proc/cpuinfo")
    flags = facts.read_text().split() if facts.exists() else ()
    return "bfloat16" if {"avx512_bf16", "amx_bf16"} & {*flags} else "float32"


def _mapping(file: Path) -> dict[str, Any]:
    try:
        data = _yaml(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise RatchetError(
            f"{file} is not a recipe: not UTF-8 text (at byte {error.start}). Save it as UTF-8; data is given with "
            "--input."
        ) from error
    except ValueError as error:
        raise RatchetError(f"{file} is not valid YAML: {error}.") from error
    except OSError as error:
        raise RatchetError(f"Cannot read the recipe {file}: {error.strerror}.") from error
    if isinstance(data, dict):
        return data
    kind = "empty" if data is None else "a list" if isinstance(data, list) else "plain text"
    raise RatchetError(
        f"{file} is not a recipe: it is {kind}. A recipe has sections (name, model, curation, training, evaluation); "
        "`ratchet show tiny` prints one. Data is given with --input."
    )


class _Loader(yaml.SafeLoader):
    """YAML 1.2's booleans and numbers. In YAML 1.1 `off`, the name of a field, is a boolean, 1e-6 is text, 010 is 8 and
    1:30 is 90."""


_Compiled: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _FastLoader(_Compiled):
    """The same, seven times as fast; its errors do not show the text."""


_YAML_1_2 = {
    "bool": (r"(?:true|True|TRUE|false|False|FALSE)\Z", "tTfF"),
    "int": (r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)\Z", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z"
        r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z",
        "-+.0123456789",
    ),
}
_TAG = "tag:yaml.org,2002:"
for _loader in (_Loader, _FastLoader):
    _loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_TAG) not in _YAML_1_2]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for _name, (_pattern, _first) in _YAML_1_2.items():
        _loader.add_implicit_resolver(_TAG + _name, re.compile(_pattern), list(_first))


def _yaml(text: str) -> Any:
    """Parse YAML. Raises ValueError with a message of one line."""
    with suppress(yaml.YAMLError, RecursionError, ValueError):
        return yaml.load(text, _FastLoader)  # which is a safe one, as the other
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: thousands of digits
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error


def with_paths(value: Any, change: Callable[[str], str], field: str = "") -> Any:
    """The data of a recipe, or of its `field`, with the paths in it changed. `files` may be a section by domain."""
    if isinstance(value, dict):
        return {name: with_paths(inner, change, field if field == "files" else name) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_paths(inner, change, field) for inner in value]
    return change(value) if field in PATHS and isinstance(value, str) else value


def _relative_to(value: Any, directory: Path, field: str = "") -> Any:
    """Make the paths in a value relative to the directory."""

    def placed(path: str) -> str:
        if not path or "://" in path or path[0] in "/~":
            return path
        is_path = path.startswith(".") or path.endswith(FILES) or any(character in path for character in "*?[")
        return str(directory / path) if is_path or (directory / path).exists() else path

    return with_paths(value, placed, field)


def _laid_over(base: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Sections merge, other values replace; a null section is removed. Where the base has a list of what has names
    (stages, benchmarks), a section by names changes these alone, and in a list a stage's name is the base's stage.
    Raises LookupError for a name that the base does not have."""
    merged = dict(base)
    for key, value in data.items():
        old = merged.get(key)
        if isinstance(old, dict) and value is None:
            del merged[key]
        elif isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _laid_over(old, value)
        elif isinstance(value, dict) and (entries := _by_name(old)):
            merged[key] = _changed(key, entries, value)
        elif key == "stages" and isinstance(value, list):
            merged[key] = [_named(key, _by_name(old), e) if isinstance(e, str) else e for e in value]
        else:
            merged[key] = value
    return merged


def _changed(key: str, entries: dict[str, dict[str, Any]], changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries in their order, those that are named with their changes; one with null is left out."""
    for name, change in changes.items():
        _named(key, entries, str(name))
        if not isinstance(change, dict | None):
            raise LookupError(f"{key}.{name}: a section with the fields to change, or null, not {_shortened(change)}")
    of_each = {name: changes.get(name, {}) for name in entries}
    return [_laid_over(entries[name], change) for name, change in of_each.items() if change is not None]


def _named(key: str, by_name: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """A copy of the entry with this name."""
    if name in by_name:
        return deepcopy(by_name[name])
    field = {"stages": "training.stages", "benchmarks": "evaluation.benchmarks"}.get(key, key)
    raise LookupError(f"{field}: the extended recipe has none that is called {name!r}.{nearest(name, by_name)}")


def _by_name(entries: Any) -> dict[str, dict[str, Any]]:
    """The entries of a list by their names; empty for anything else."""
    if not isinstance(entries, list):
        return {}
    return {str(entry["name"]): entry for entry in entries if isinstance(entry, dict) and "name" in entry}


def _leaves(data: Any, path: str = "") -> dict[str, Any]:
    """Every value in nested sections, by its dotted path."""
    if not isinstance(data, dict) or not data:
        return {path: data}
    return {name: leaf for key in data for name, leaf in _leaves(data[key], f"{path}.{key}".strip(".")).items()}


def _at(data: Any, path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    for part in path.split("."):
        data = data.get(part) if isinstance(data, dict) else _by_name(data).get(part)
    return data


def validate_recipe(data: dict[str, Any], where: str) -> Recipe:
    """Validate a recipe's data. Raises RatchetError with a line for each fault; `where` names the file."""
    refuse_secrets(data, where)
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        problems = fault_lines(error, data)
        apart = " " if len(problems) == 1 else "\n  "
        raise RatchetError(f"{where} is not a valid recipe:{apart}{apart.join(problems)}") from error


def refuse_secrets(value: Any, where: str, field: str = "") -> None:
    """Raises RatchetError for a password or a key, without showing it: recipes are copied into results and pages."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            refuse_secrets(inner, where, f"{field}.{name}".strip("."))
    elif isinstance(value, str) and _LOGIN.match(value):
        raise RatchetError(
            f"{where}: {field} contains a password, which would be copied into every result. Remove USER:PASSWORD@; "
            "put an endpoint's key into an environment variable and its name into api_key_env."
        )
    elif isinstance(value, str) and "api_key_env" in field and not _VARIABLE.fullmatch(value):
        raise RatchetError(
            f"{where}: {field} is the name of an environment variable (capitals, digits and _), never the key itself."
        )


def _resolve(path: str | Path, directory: Path) -> Path:
    """The file of a recipe, relative to the directory, or shipped."""
    for candidate in (directory / path, directory / f"{path}.yaml", SHIPPED / path, SHIPPED / f"{path}.yaml"):
        if candidate.is_file():
            return Path(os.path.abspath(candidate))
    place = directory / path
    if place.is_dir() or place.is_symlink():
        what = "a directory" if place.is_dir() else "a broken link"
        raise RatchetError(f"{place} is {what}, not a recipe file.")
    shipped, name = shipped_recipes(), str(path).removesuffix(".yaml").removesuffix(".yml")
    beside = [str(file) for file in sorted((directory / path).parent.glob("*.y*ml"))]
    hint = nearest(str(path), beside) or nearest(name.split("recipes/")[-1], shipped)
    hint = hint or nearest(name.split("/")[-1], shipped)
    raise RatchetError(
        f"No recipe {str(path)!r} in {directory.resolve()}.{hint} `ratchet show recipes` lists the shipped ones."
    )


def _override(data: dict[str, Any], override: str, directory: Path = Path()) -> None:
    """`training.stages.math-8k.steps=20`: dots descend; a number or a name is one of a list, `*` all of it; the value
    is YAML."""
    dotted, separator, text = override.partition("=")
    if not separator:
        raise RatchetError(f"--set {override!r}: write key.path=value, e.g. --set training.stages.0.steps=20.")
    path = dotted.strip().split(".")
    try:
        value = _relative_to(_yaml(text), directory, path[-1])
    except ValueError as error:
        raise RatchetError(f"--set {_shortened(override)}: the value is not valid YAML: {error}.") from error
    set_field(data, path, value, override)


def set_field(node: Any, path: list[str], value: Any, override: str, at: int = 0) -> None:
    """Set a field of a recipe's data. Raises RatchetError that names the `override` if there is no such field."""
    keys: list[Any] = [*_indices(node, path[at], override)] if isinstance(node, list) else [path[at]]
    for key in keys:
        if at == len(path) - 1:
            node[key] = value
            continue
        child = node[key] if isinstance(node, list) else node.setdefault(key, {})
        if not isinstance(child, dict | list):
            where = ".".join(path[: at + 1])
            raise RatchetError(f"--set {override!r}: {where} is {child!r}, which has no fields.")
        set_field(child, path, value, override, at + 1)


def _indices(node: list[Any], part: str, override: str) -> list[int]:
    if part == "*":
        return list(range(len(node)))
    names = [str(entry.get("name", "")) if isinstance(entry, dict) else "" for entry in node]
    if part in names:
        return [names.index(part)]
    if not part.isdigit() or int(part) >= len(node):
        choices = f" or a name: {', '.join(filter(None, names))}." if any(names) else "."
        hint = nearest(part, [name for name in names if name])
        raise RatchetError(f"--set {override!r}: {part!r} must be *, a number from 0 to {len(node) - 1}{choices}{hint}")
    return [int(part)]


def _shortened(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 1024:
        return "an integer of hundreds of digits"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def fault_lines(error: ValidationError, data: Any = None) -> list[str]:
    """A line for each fault in `data`. A list with a refused entry is not also called too short."""
    errors = error.errors()
    inner = {fault["loc"][:-1] for fault in errors}
    return [
        fault_sentence({**fault, "loc": [*_by_names(fault["loc"], data)]})
        for fault in errors
        if fault["type"] != "too_short" or fault["loc"] not in inner
    ]


def _by_names(places: Sequence[int | str], data: Any) -> Iterator[int | str]:
    """The places of a fault, with an entry's name instead of its number: `evaluation.benchmarks.test.samples`."""
    for place in places:
        entry: Any = None
        with suppress(LookupError, TypeError):
            entry = data[place]
        named = isinstance(place, int) and isinstance(entry, dict) and isinstance(entry.get("name"), str)
        yield entry["name"] if named else place
        data = data if place in WAYS else entry


@cache
def names_elsewhere() -> dict[str, str]:
    """What to give in a recipe for a setting of TRL, verl or OpenRLHF, by its name there."""
    table = load_yaml(Path(__file__).with_name("names_elsewhere.yaml"))
    return {name: here for names, here in table.items() for name in names.split()}


def fault_sentence(error: Any) -> str:
    """One of pydantic's errors as a sentence with the field."""
    places = [place for place in error["loc"] if place not in WAYS]
    location = ".".join(map(str, [*places, *filter(None, [error.get("ctx", {}).get("key")])]))
    if error["type"] == "unknown_key":
        here = names_elsewhere().get(str(error["ctx"]["key"]))
        if here and "belongs in the section" not in error["msg"]:
            return f"{location}: unknown key here. Instead: {here}."
        more = " `ratchet show schema` has every field; a newer Ratchet may have more."
        return f"{location}: {error['msg']}{'' if 'Did you mean' in error['msg'] else more}"
    if error["type"] == "missing":
        return f"{location}: required, but missing."
    value = "" if isinstance(error.get("input"), dict) else f" (given {_shortened(error.get('input'))})"
    if words := BOUNDS.get(error["type"]):
        bound = next(iter(error["ctx"].values()))
        return f"{location}: Input should be {words} {bound:{'g' if isinstance(bound, float) else ''}}{value}"
    return f"{location or 'recipe'}: {error['msg'].removeprefix('Value error, ')}{value}"
