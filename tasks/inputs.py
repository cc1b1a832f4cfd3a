"""Find the files that a recipe names: local, on the Hugging Face Hub, or generated."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow.parquet as pq
from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from ratchet.data_curation.base.bounds import CountOrZero, Number
from ratchet.data_curation.base.draft import Draft
from ratchet.data_curation.base.hub import hub_address, hub_answers
from ratchet.data_curation.base.slow_calls import proxy_note
from ratchet.data_curation.readers.sources import NotFetched, local_files
from ratchet.infra.recipe.evaluation import CATALOG
from ratchet.infra.recipe.load import fault_sentence
from ratchet.infra.recipe.recipe import Generator
from ratchet.infra.store.artifacts import UNKNOWN, Artifact, ArtifactStore
from ratchet.infra.store.manifest import MANIFESTS
from ratchet.tasks.run_context import PlannedStep, RunContext
from ratchet.tasks.step import Step, StepOutput, log_output, run_step
from ratchet.training.checkpoint_files import CHECKPOINTS, checkpoint_steps
from ratchet.verifiers.domains import code_of
from ratchet.verifiers.environments.domain import GENERATOR as ENVIRONMENT
from ratchet.verifiers.errors import RatchetError, nearest
from ratchet.verifiers.registry import Registry


def _log(output: StepOutput) -> None:
    hashes = {f"sha256.{name}": facts.sha256 for name, facts in output.artifact.manifest.files.items()}
    output.tracking.event("tags", output.child, tags=hashes)
    log_output(output)


GENERATE = Step("generate", 1, "raw", log=_log)
GENERATED = "generated://"
GENERATORS: Registry[Callable[..., str | None]] = Registry(
    "generator",
    {
        "reasoning-gym": "ratchet.verifiers.logic.generation:make_puzzles",
        "verifiers": "ratchet.verifiers.environments.generation:make_rows",
    },
    callable,
)


def generated(run: RunContext, name: str) -> Artifact:
    """The output of the generator with this name, of the recipe or of a known benchmark."""
    recipe = run.recipe
    if name in recipe.generate:
        generator = recipe.generate[name]
    elif "generate" in CATALOG.get(name, {}):
        generator = Generator.model_validate(CATALOG[name]["generate"])
    else:
        names = ", ".join(recipe.generate) or "none"
        raise RatchetError(f"{GENERATED}{name}/…: the recipe generates no {name!r} (under `generate`: {names}).")
    function = GENERATORS.get(generator.by)
    module, code = sys.modules[function.__module__], [GENERATORS.path(generator.by)]
    if generator.by == ENVIRONMENT:
        code += code_of([name])
    version, checked = getattr(module, "VERSION", 1), getattr(module, "CHECK", None)
    parameters = {"by": generator.by, "version": version, "settings": generator.settings, "seed": recipe.seed}

    def make(draft: Draft) -> None:
        note = function(draft.path, recipe.seed, **generator.settings)
        for file in sorted(draft.path.glob("*.parquet")):
            draft.counts[file.stem] = pq.read_metadata(file).num_rows
        for file in sorted(draft.path.glob("*.jsonl")):
            with file.open("rb") as lines:
                draft.counts[file.stem] = sum(1 for _ in lines)
        if note:
            run.reporter.note(note)
        draft.result.headline = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in draft.counts.items())

    check_settings(name, function, generator.settings)
    check = checked and partial(checked, **generator.settings)
    return run_step(
        run, GENERATE, name, parameters=parameters, inputs=[], make=make, title=f"generate {name}", check=check,
        code=code,
    )  # fmt: skip


WEIGHTS = (".safetensors", ".bin")
MODEL_FILES = ["*.safetensors", "*.bin", "*.json", "*.txt", "*.model", "*.jinja", "*.py"]
"""The files of a model's repository that are read; it may have weights for other frameworks."""
PLAIN_TYPES: dict[Any, Any] = {int: CountOrZero, float: Number}
"""Bounded types for a generator's parameter whose type, or whose default's type, has no bounds: an int is a number of
rows or the like."""


def check_settings(name: str, function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raises RatchetError for a setting that the generator does not have, lacks, or whose value has the wrong type."""
    parameters = dict(list(inspect.signature(function).parameters.items())[2:])  # after directory and seed
    types, where = get_type_hints(function, include_extras=True), f"generate.{name}"
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            return
        if parameter.default is parameter.empty and parameter.name not in settings:
            raise RatchetError(f"{where}.{parameter.name}: required, but missing.")
    for setting, value in settings.items():
        if setting not in parameters:
            raise RatchetError(f"{where}.{setting}: unknown key.{nearest(setting, parameters)}")
        default = parameters[setting].default
        kind = types.get(setting, type(default) if type(default) in PLAIN_TYPES else Any)
        try:
            TypeAdapter(PLAIN_TYPES.get(kind, kind)).validate_python(value)
        except PydanticSchemaGenerationError:  # a type of the user's own
            continue
        except ValidationError as error:
            problems = [fault_sentence({**fault, "loc": (where, setting, *fault["loc"])}) for fault in error.errors()]
            raise RatchetError("; ".join(problems)) from error


def given_files(run: RunContext, paths: Sequence[str]) -> list[Artifact]:
    """Expand a recipe's paths and remove duplicates; generated files are made."""
    files_by_name: dict[str, Artifact] = {}
    for path in paths:
        if path.startswith(GENERATED):
            name, _, file = path.removeprefix(GENERATED).partition("/")
            if "/" in file:
                raise RatchetError(
                    f"{path}: name a file directly in the generator's folder, as {GENERATED}{name}/FILE."
                )
            directory = generated(run, name)
            files_by_name[path] = Artifact("raw", directory.name, directory.key, directory.path / file)
            continue
        try:
            for local in local_files(path):
                files_by_name.setdefault(os.path.abspath(local.expanduser()), run.store.file(local))
        except NotFetched as error:
            if not run.planning:
                raise
            files_by_name[path] = _to_fetch(run, path, error)
    return list(files_by_name.values())


def given_checkpoint(run: RunContext, model: str) -> Artifact:
    """A model that `local_model` finds, or one of the Hub by its name."""
    return local_model(run.store, model) if is_local_model(model) else hub_model(run, model)


def is_local_model(model: str) -> bool:
    """False for a name that can only be one of the Hub."""
    owner, separator, name = model.partition("/")
    elsewhere = separator and owner not in (*MANIFESTS, "~", ".", "..", "") and "/" not in name
    return not elsewhere or Path(model).is_dir()


def local_model(store: ArtifactStore, model: str, given_by: str = "--model") -> Artifact:
    """A checkpoint of the store by its reference, one that a stage kept from before its end as `REFERENCE@STEP` or by
    its directory, or a directory with a Hugging Face model. `given_by` is the option or field, for errors."""
    directory = Path(model).expanduser()
    if model.startswith(("./", "../", "/", "~")) and not directory.exists():
        raise RatchetError(f"{given_by} {model}: there is no such directory.")
    reference, at, step = model.rpartition("@")
    if at and step.isdigit() and not directory.exists():
        directory = _kept_checkpoint(store.open(reference), int(step))
    if (directory / "state.json").is_file():  # a stage's checkpoint
        stage, step = directory.parents[1], directory.name.removeprefix("step-").lstrip("0")
        return replace(store.directory(directory / "model", "model"), name=f"{stage.name}-step-{step}")
    if directory.is_dir() and not (directory / "manifest.json").is_file():
        return store.directory(directory, "model")
    artifact = store.open(model)
    if artifact.kind != "checkpoint":
        raise RatchetError(f"{artifact.ref} is not a checkpoint. `ratchet show checkpoint` lists them.")
    return artifact


def _kept_checkpoint(stage: Artifact, step: int) -> Path:
    """The directory of the checkpoint of `step` that a stage kept."""
    kept = checkpoint_steps(stage.path / CHECKPOINTS)
    if step in kept:
        return kept[step]
    which = f"those of steps {', '.join(map(str, kept))}" if kept else "none (training.keep_checkpoints)"
    raise RatchetError(f"{stage.ref} has no checkpoint of step {step}: it kept {which}.")


def hub_model(run: RunContext, name: str) -> Artifact:
    """A model of the Hub, downloaded unless the cache has it; in a plan that lacks it, a placeholder."""
    from huggingface_hub import errors, snapshot_download

    offline = run.planning or not hub_answers()
    try:
        fetched = snapshot_download(name, local_files_only=offline, endpoint=hub_address(), allow_patterns=MODEL_FILES)
        if not any(file.suffix in WEIGHTS for file in Path(fetched).iterdir()):  # a plan has read its config.json
            raise FileNotFoundError("the Hub's cache has no weights of it")
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        if run.planning:
            return _placeholder(run, "model", name)
        raise RatchetError(
            f"--model {name}: no such directory, and the Hub does not provide it ({error}). Check the name, the "
            f"network (HF_ENDPOINT, HF_HUB_OFFLINE) and the login (`hf auth login`); or `hf download {name}` elsewhere "
            "and give the directory."
        ) from error
    return replace(run.store.directory(Path(fetched), "model"), name=name.partition("/")[2])


def _to_fetch(run: RunContext, name: str, error: NotFetched) -> Artifact:
    """A placeholder, in a plan, for files that are not downloaded yet; a run raises the error."""

    def check() -> None:
        if hub_answers():
            raise error
        raise RatchetError(
            f"The Hub{proxy_note(hub_address())} cannot be reached, and files are not downloaded yet: check the "
            "network (HF_ENDPOINT, HF_HUB_OFFLINE), or use `hf download --repo-type dataset NAME` elsewhere and give "
            "the directory."
        )

    return _placeholder(run, "hub", name, check)


def _placeholder(run: RunContext, kind: str, name: str, check: Callable[[], None] | None = None) -> Artifact:
    absent = Artifact(kind, name, UNKNOWN + name, Path(name))
    if absent.key not in run.inputs:
        run.plan.append(PlannedStep(f"fetch {name}", absent, (), cached=False, check=check))
    return absent
