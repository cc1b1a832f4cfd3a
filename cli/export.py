"""`ratchet export`: problems for another trainer, problems and checkpoints for the Hub."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ratchet.cli.options import Home, Overrides, PlainCommand, artifact, with_output
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import output as options
from ratchet.cli.terminal import print_json, say
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError, nearest

if TYPE_CHECKING:
    from ratchet.infra.store.artifacts import Artifact, ArtifactStore
    from ratchet.tasks.publication import Files


export = typer.Typer(
    help="Export problems, checkpoints and recipes for other trainers and the Hugging Face Hub.\n\n"
    "Example, after `ratchet run tiny`: `ratchet export problems problems/math-curated --format trl --output exported`"
)

Output = Annotated[Path, typer.Option("--output", help="The directory to write to.")]
License = Annotated[
    str,
    typer.Option("--license", help="The license, as the Hub names it: `apache-2.0` (default: the card's, or other)."),
]


def problems(
    what: Annotated[str, artifact("Problems (`problems/…`), or a Parquet file or directory of problems.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="`verl`, `trl`, `openrlhf`, `nemo-rl`, `open-instruct`, `prime-rl`, or `ratchet`."
        ),
    ],
    output: Output,
    validation: Annotated[
        str, artifact("Problems for validation.parquet, as the first argument names them.", "--validation")
    ] = "",
    recipe: Annotated[str, recipe_named("The recipe whose `model.prompt` to use.", "--recipe")] = "",
    data_source: Annotated[
        str, typer.Option(help="For verl's own reward functions instead of ours: `lighteval/MATH`, or `taco` for code.")
    ] = "",
    license_: License = "",
    home: Home = None,
) -> None:
    """Export curated problems for another trainer.

    The directory has a Parquet file for each split and a README that says how to train with it. All domains can be
    exported; with `--data-source` the problems that verl's function cannot judge are left out and counted.

    Example, after `ratchet run tiny`: `ratchet export problems problems/math-curated --format trl --output exported`
    """
    from ratchet.data_curation.base.files import disk_errors
    from ratchet.data_curation.base.prompts import PromptFormat
    from ratchet.data_curation.exports import EXPORTS, export_problems
    from ratchet.infra.recipe import load_recipe
    from ratchet.infra.store.artifacts import ArtifactStore
    from ratchet.tasks import publication

    store = ArtifactStore(load_settings(home).artifacts)
    if format_ not in EXPORTS:
        raise RatchetError(
            f"There is no --format {format_!r}.{nearest(format_, EXPORTS)} There are {', '.join(EXPORTS)}."
        )
    splits = _splits(what, store)
    if validation:
        splits["validation"] = next(iter(_splits(validation, store).values()))
    prompt, files = load_recipe(recipe).model.prompt if recipe else PromptFormat(), []
    own = _own_domains(splits.values(), recipe)
    with disk_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        for split, source in splits.items():
            written, left_out = export_problems(
                source, target := output / f"{split}.parquet", format_, prompt, data_source
            )
            files.append({"file": str(target), "problems": written, "left_out": dict(left_out.most_common())})
        if usage := EXPORTS[format_].usage:
            names = {"train": f"{next(iter(splits))}.parquet", "validation": f"{[*splits][-1]}.parquet"}
            title, usage = f"Train with this: {Path(what).name}", usage.format(**names)
            if own:
                usage = f"The trainer must find the domain's module:\n\n```\nexport {own}\n```\n\n{usage}"
            card = publication.exported_card(_card(what, store), title, usage, license_)
            (output / "README.md").write_text(card, encoding="utf-8")
    if options.json:
        print_json(files)
        return
    for file in files:
        say(f"{file['problems']:,} problems → {file['file']}")
        for reason, count in file["left_out"].items():
            say(f"left out {count:,}: {reason}")
    if own:
        say(f"For the trainer: export {own}")


def hub(
    what: Annotated[str, artifact("Problems (`problems/…`) or a checkpoint (`checkpoint/…`).")],
    push: Annotated[
        str, typer.Option("--push", metavar="OWNER/NAME", help="Upload to this repository of the Hugging Face Hub.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Make a new repository on the Hub private.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="Write the repository to this directory.")] = None,
    license_: License = "",
    home: Home = None,
) -> None:
    """Export problems or a checkpoint as a repository of the Hugging Face Hub, with a card that describes its origin.

    The login is the Hub's: HF_TOKEN, or `hf auth login`. Files that are there already are not sent again.

    Example, after `ratchet run tiny`: `ratchet export hub checkpoint/math-60 --output repository`

    Example, with a login: `ratchet export hub checkpoint/math-60 --push my-org/my-model --private`
    """
    from ratchet.infra.store.artifacts import ArtifactStore
    from ratchet.tasks import publication

    if bool(push) == bool(output):
        raise RatchetError(
            "Give --push OWNER/NAME, to upload, or --output DIR, to write the repository to a directory."
        )
    store = ArtifactStore(load_settings(home).artifacts)
    if push:
        _push(store, store.open(what), push, private, license_)
    elif output:
        _write(publication.repository(store, store.open(what), license_)[1], output)


def runs(
    recipe: Annotated[str, recipe_named("The recipe whose stages to write.")],
    output: Output,
    for_: Annotated[str, typer.Option("--for", help="The trainer: `verl`.")] = "verl",
    set_: Overrides = None,
    home: Home = None,
) -> None:
    """Write a recipe's curriculum as runs of another trainer: one for each stage.

    Example, after `ratchet run tiny`: `ratchet export runs tiny --for verl --output runs`
    """
    from ratchet.flows.curate import curated_problems
    from ratchet.infra.recipe import load_recipe
    from ratchet.tasks.verl_runs import write_runs

    if for_ != "verl":
        raise RatchetError(f"A curriculum can be written for verl, not for {for_!r}.")
    curated = curated_problems(load_recipe(recipe, set_ or ()), load_settings(home))
    lines = write_runs(load_recipe(recipe, set_ or (), fit=False), curated, output)
    if options.json:
        print_json({"directory": str(output), "written": lines})
        return
    for line in lines:
        say(line)


for command in (problems, hub, runs):
    export.command(cls=PlainCommand)(with_output(command))


def _own_domains(files: Iterable[Path], recipe: str) -> str:
    """The variables by which another trainer finds the domains of these problems; "" if all are shipped. Raises
    RatchetError for a domain that is not known."""
    import pyarrow.parquet as pq

    from ratchet.verifiers.domains import DOMAINS, known_domains, own_domain_variables

    names = {name for file in files for name in pq.read_table(file, columns=["domain"])["domain"].unique().to_pylist()}
    if unknown := sorted(map(str, names - {*known_domains()})):
        raise RatchetError(
            f"There is no domain {unknown[0]!r} in {recipe}: give the recipe that declares it."
            if recipe
            else f"{unknown[0]!r} is a domain of its own: name the recipe that declares it, --recipe RECIPE."
        )
    return own_domain_variables() if names - {*DOMAINS.shipped} else ""


def _push(store: "ArtifactStore", source: "Artifact", repository: str, private: bool, license_: str) -> None:
    from huggingface_hub import CommitOperationAdd, HfApi, errors

    from ratchet.data_curation.base.hub import hub_address
    from ratchet.tasks import publication

    hub = hub_address()
    kind, files = publication.repository(store, source, license_)
    added = [
        CommitOperationAdd(name, content if isinstance(content, Path) else content.encode())
        for name, content in files.items()
    ]
    api = HfApi(endpoint=hub)
    try:
        api.create_repo(repository, repo_type=kind, private=private or None, exist_ok=True)
        commit = api.create_commit(repository, added, commit_message=f"{source.ref} of Ratchet", repo_type=kind)
    except (errors.HTTPError, errors.HFValidationError, OSError, ValueError) as error:  # type: ignore
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise RatchetError(
            f"The Hub at {hub} did not accept {source.ref} as {repository}: {reason.rstrip('.')}. Check the name, the "
            "network (HF_ENDPOINT, HF_HUB_OFFLINE) and the login (HF_TOKEN, `hf auth login`), which must allow writing."
        ) from error
    if options.json:
        print_json({"artifact": source.ref, "url": commit.commit_url})
    else:
        say(f"{source.ref} → {commit.commit_url}")


def _write(files: "Files", output: Path) -> None:
    """Write a repository to a folder."""
    from ratchet.data_curation.base.files import disk_errors, replacing

    with disk_errors(output):
        for name, content in files.items():
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            with replacing(output / name) as draft:
                if isinstance(content, Path):
                    shutil.copyfile(content, draft)
                else:
                    draft.write_text(content, encoding="utf-8")
    if options.json:
        print_json({"directory": str(output), "files": sorted(files)})
    else:
        say(f"{len(files)} files → {output}")


def _splits(problems: str, store: "ArtifactStore") -> dict[str, Path]:
    """The Parquet files of problems by split: a file, those of a directory, or an artifact's kept rows. Raises
    RatchetError when one is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(problems).expanduser()
    files = [path] if path.is_file() else sorted([*path.glob("*.parquet"), *path.glob("data/*.parquet")])
    splits = {file.stem: file for file in files if file.name != "rejected.parquet"}
    if not splits or "kept" in splits or path.is_file():
        splits = {"train": splits.get("kept") or next(iter(splits.values()), None) or store.open(problems).kept}
    for file in splits.values():
        try:
            missing = {"problem_id", "domain", "prompt"} - set(pq.read_schema(file).names)
        except (OSError, pa.ArrowException) as error:
            raise RatchetError(f"{file} is not a readable Parquet file ({error}).") from error
        if missing:
            raise RatchetError(
                f"{file} is not a data set of problems: it has no column {', '.join(sorted(missing))}. Curate it first "
                "(`ratchet curate DOMAIN --input …`)."
            )
    return dict(sorted(splits.items(), key=lambda item: (item[0] != "train", item[0])))


def _card(problems: str, store: "ArtifactStore") -> str:
    """The data set's own card; "" where it has none."""
    from ratchet.tasks import publication

    path = Path(problems).expanduser()
    if not path.exists():
        return publication.data_card(store, store.open(problems), "")
    names = ("card.md", "README.md") if path.is_dir() else ()
    return next((text.read_text("utf-8") for name in names if (text := path / name).is_file()), "")
