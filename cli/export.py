"""`ratchet export`: problems for another trainer, problems and checkpoints for the Hub."""

import shutil
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ratchet.cli.options import Home, artifact
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.terminal import console
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.infra.store.artifacts import Artifact, ArtifactStore
    from ratchet.tasks.publication import Files

BATCH_ROWS = 1024


def export(
    what: Annotated[
        str, artifact("Problems (`problems/…`) or a Parquet file of problems; for the Hub also a checkpoint.")
    ],
    format_: Annotated[
        str, typer.Option("--format", help="`verl`, `trl`, `ratchet`, or `hub`: a repository with its card.")
    ] = "",
    output: Annotated[Path | None, typer.Option("--output", help="The directory to write train.parquet to.")] = None,
    push: Annotated[
        str, typer.Option("--push", metavar="OWNER/NAME", help="Upload to this repository of the Hugging Face Hub.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Make a new repository on the Hub private.")] = False,
    license_: Annotated[
        str, typer.Option("--license", help="The repository's license, as the Hub names it: `apache-2.0`.")
    ] = "other",
    recipe: Annotated[str, recipe_named("The recipe whose `model.prompt` to use.", "--recipe")] = "",
    data_source: Annotated[
        str, typer.Option(help="verl's reward function (default: lighteval/MATH, and taco for code).")
    ] = "",
    home: Home = None,
) -> None:
    """Export curated problems for another trainer (verl, TRL), or problems or a checkpoint to the Hugging Face Hub.

    Problems that a format cannot express are left out and counted. A repository for the Hub has a card that describes
    its origin; the login is the Hub's: HF_TOKEN, or `hf auth login`. Files that are there already are not sent again.

    Example: `ratchet export problems/math-curated-1a2b3c4d5e6f --format verl --output data/math`

    Example: `ratchet export checkpoint/math-60-1a2b3c4d5e6f --push my-org/my-model --private`
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ratchet.data_curation.exports import EXPORTS
    from ratchet.infra.recipe import load_recipe
    from ratchet.infra.recipe.model import PromptFormat
    from ratchet.infra.store.artifacts import ArtifactStore
    from ratchet.infra.store.files import disk_errors, replacing
    from ratchet.infra.store.problem_table import from_table
    from ratchet.tasks import publication
    from ratchet.verifiers.domain import NotExpressible
    from ratchet.verifiers.domains import domain_of

    store = ArtifactStore(load_settings(home).artifacts)
    if push:
        _push(store, store.open(what), push, private, license_)
        return
    if format_ not in (*EXPORTS, "hub") or output is None:
        raise RatchetError(f"Give --format ({', '.join(EXPORTS)}, hub) and --output DIR; or --push OWNER/NAME.")
    if format_ == "hub":
        _write(publication.repository(store, store.open(what), license_)[1], output)
        return
    source, schema, convert = _kept(what, store), EXPORTS[format_].schema, EXPORTS[format_].convert
    prompt = load_recipe(recipe).model.prompt if recipe else PromptFormat()
    left_out, written = Counter[str](), Counter[str]()
    target = output / "train.parquet"
    with ExitStack() as stack:
        stack.enter_context(disk_errors(output))
        output.mkdir(parents=True, exist_ok=True)
        file, draft = stack.enter_context(pq.ParquetFile(source)), stack.enter_context(replacing(target))
        writer = stack.enter_context(pq.ParquetWriter(draft, schema))
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            rows = []
            for problem in from_table(pa.Table.from_batches([batch])):
                try:
                    rows.append(convert(problem, written.total(), prompt, data_source))
                    written[problem.domain] += 1
                except NotExpressible as reason:
                    left_out[str(reason)] += 1
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    console.print(f"{written.total():,} problems → {target}", soft_wrap=True, markup=False)
    for reason, count in left_out.most_common():
        console.print(f"left out {count:,}: {reason}", soft_wrap=True, markup=False)
    if format_ == "verl" and written:
        functions = {data_source or domain_of(domain).verl_reward for domain in written}
        console.print(
            f"verl's reward functions for these: {', '.join(sorted(functions))} (--data-source). "
            "For Ratchet's own verdicts, point a custom reward function at `ratchet-judge serve`.", soft_wrap=True,
        )  # fmt: skip


def _push(store: "ArtifactStore", source: "Artifact", repository: str, private: bool, license_: str) -> None:
    from huggingface_hub import CommitOperationAdd, HfApi, errors

    from ratchet.infra.inference.hub import hub_address
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
    console.print(f"{source.ref} → {commit.commit_url}", soft_wrap=True, markup=False)


def _write(files: "Files", output: Path) -> None:
    """Write a repository to a folder."""
    from ratchet.infra.store.files import disk_errors, replacing

    with disk_errors(output):
        for name, content in files.items():
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            with replacing(output / name) as draft:
                if isinstance(content, Path):
                    shutil.copyfile(content, draft)
                else:
                    draft.write_text(content, encoding="utf-8")
    console.print(f"{len(files)} files → {output}", soft_wrap=True, markup=False)


def _kept(problems: str, store: "ArtifactStore") -> Path:
    """The Parquet file of problems. Raises RatchetError when it is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(problems).expanduser()
    path = path / "kept.parquet" if path.is_dir() else path
    if not path.is_file():
        path = store.open(problems).kept
    try:
        missing = {"problem_id", "domain", "prompt"} - set(pq.read_schema(path).names)
    except (OSError, pa.ArrowException) as error:
        raise RatchetError(f"{path} is not a readable Parquet file ({error}).") from error
    if missing:
        raise RatchetError(
            f"{path} is not a data set of problems: it has no column {', '.join(sorted(missing))}. Curate it first "
            "(`ratchet curate DOMAIN --input …`)."
        )
    return path
