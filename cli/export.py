"""`ratchet export`: problems for another trainer, problems and checkpoints for the Hub."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ratchet.cli.options import Home, artifact
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import say
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.infra.store.artifacts import Artifact, ArtifactStore
    from ratchet.tasks.publication import Files


def export(
    what: Annotated[
        str, artifact("Problems (`problems/…`) or a Parquet file of problems; for the Hub also a checkpoint.")
    ],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="`verl`, `trl`, `openrlhf`, `nemo-rl`, `open-instruct`, `prime-rl`, `ratchet`, or `hub`, as there.",
        ),
    ] = "",
    output: Annotated[Path | None, typer.Option("--output", help="The directory to write to.")] = None,
    validation: Annotated[
        str, artifact("Problems for validation.parquet, as the first argument names them.", "--validation")
    ] = "",
    push: Annotated[
        str, typer.Option("--push", metavar="OWNER/NAME", help="Upload to this repository of the Hugging Face Hub.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Make a new repository on the Hub private.")] = False,
    license_: Annotated[
        str,
        typer.Option(
            "--license", help="The license, as the Hub names it: `apache-2.0` (default: the card's, or other)."
        ),
    ] = "",
    for_: Annotated[
        str,
        typer.Option("--for", help="`verl`: write a run of it for each stage of --recipe to the directory ARTIFACT."),
    ] = "",
    recipe: Annotated[str, recipe_named("The recipe whose `model.prompt` to use.", "--recipe")] = "",
    data_source: Annotated[
        str, typer.Option(help="For verl's own reward functions instead of ours: `lighteval/MATH`, or `taco` for code.")
    ] = "",
    home: Home = None,
) -> None:
    """Export curated problems for another trainer, or problems or a checkpoint to the Hugging Face Hub.

    The directory has a Parquet file for each split and a README that says how to train with it. All domains can be
    exported; with `--data-source` the problems that verl's function cannot judge are left out and counted. A repository
    for the Hub has a card that describes its origin; the login is the Hub's: HF_TOKEN, or `hf auth login`. Files that
    are there already are not sent again.

    Example: `ratchet export problems/math-curated-1a2b3c4d5e6f --format trl --output data/math`

    Example: `ratchet export checkpoint/math-60-1a2b3c4d5e6f --push my-org/my-model --private`
    """
    from ratchet.data_curation.base.files import disk_errors
    from ratchet.data_curation.base.prompts import PromptFormat
    from ratchet.data_curation.exports import EXPORTS, export_problems
    from ratchet.infra.recipe import load_recipe
    from ratchet.infra.store.artifacts import ArtifactStore
    from ratchet.tasks import publication

    store = ArtifactStore(load_settings(home).artifacts)
    if push:
        _push(store, store.open(what), push, private, license_)
        return
    if for_:
        if for_ != "verl" or not recipe:
            raise RatchetError("A curriculum can be written for verl: ratchet export DIR --recipe RECIPE --for verl.")
        from ratchet.tasks.verl_runs import write_runs

        for line in write_runs(load_recipe(recipe, fit=False), store, Path(what).expanduser()):
            say(line)
        return
    if format_ not in (*EXPORTS, "hub") or output is None:
        raise RatchetError(f"Give --format ({', '.join(EXPORTS)}, hub) and --output DIR; or --push OWNER/NAME.")
    if format_ == "hub":
        _write(publication.repository(store, store.open(what), license_)[1], output)
        return
    splits = _splits(what, store)
    if validation:
        splits["validation"] = next(iter(_splits(validation, store).values()))
    prompt = load_recipe(recipe).model.prompt if recipe else PromptFormat()
    with disk_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        for split, source in splits.items():
            written, left_out = export_problems(
                source, target := output / f"{split}.parquet", format_, prompt, data_source
            )
            say(f"{written:,} problems → {target}")
            for reason, count in left_out.most_common():
                say(f"left out {count:,}: {reason}")
        if usage := EXPORTS[format_].usage:
            names = {"train": f"{next(iter(splits))}.parquet", "validation": f"{[*splits][-1]}.parquet"}
            title = f"Train with this: {Path(what).name}"
            card = publication.exported_card(_card(what, store), title, usage.format(**names), license_)
            (output / "README.md").write_text(card, encoding="utf-8")


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
