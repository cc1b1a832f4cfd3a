"""`ratchet new`: write a working, tested skeleton of a part that a recipe chooses by name, as a package of its own."""

import keyword
from pathlib import Path
from typing import Annotated

import typer

from ratchet.cli.terminal import hint, output, print_json, say
from ratchet.verifiers.errors import RatchetError, nearest
from ratchet.verifiers.yaml_files import load_yaml

KINDS = ("rule", "step", "domain", "loss", "benchmark")
"""The kinds of skeletons in `skeletons.yaml`."""


def new(
    kind: Annotated[str, typer.Argument(help=f"What to write: {', '.join(KINDS)}.", metavar="KIND")],
    name: Annotated[str, typer.Argument(help="Its name in recipes: lower-case letters, digits and _.")],
    into: Annotated[Path, typer.Option("--into", help="The directory in which its folder is made.")] = Path(),
) -> None:
    """Write a working, tested package with a rule, a curation step, a domain, a loss or a benchmark.

    Once it is installed, every recipe can use its name (an entry point). Beside a recipe, it is named by import path.

    Example: `ratchet new loss my_loss`
    """
    if kind not in KINDS:
        raise RatchetError(f"There is no skeleton of a {kind!r}.{nearest(kind, KINDS)} Known: {', '.join(KINDS)}.")
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii() or name != name.lower():
        raise RatchetError(f"{name!r} cannot name a Python module: use lower-case letters, digits and _.")
    folder = into / name
    if folder.exists():
        raise RatchetError(f"{folder} exists already. Choose another name, or another directory with --into.")
    skeletons = load_yaml(Path(__file__).with_name("skeletons.yaml"))
    skeleton, words = skeletons["kinds"][kind], {"NAME": name, "DASHED": name.replace("_", "-")}
    words["CLASS"] = "".join(part.capitalize() for part in name.split("_"))
    member = _filled(skeleton["member"], words)

    files = {_filled(file, words): _filled(text, words) for file, text in skeleton["files"].items()}
    setuptools = skeleton.get("setuptools", 'py-modules = ["NAME"]')
    project = skeletons["project"].replace("SETUPTOOLS", setuptools)
    files["pyproject.toml"] = _filled(project, {"GROUP": skeleton["group"], "MEMBER": member, **words})
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    if output.json:
        print_json({"folder": str(folder), "member": f"{name}:{member}", "entry_point_group": skeleton["group"]})
        return
    say(f"{folder}/: {', '.join(files)}")
    hint(f"Run its tests: pip install pytest, then cd {folder} && python -m pytest")
    if "try" in skeleton:
        hint(f"Try it: cd {folder} && {_filled(skeleton['try'], words)} --dry-run")
    hint(f"Install it: pip install -e {folder}")
    hint(f"In a recipe: {_filled(skeleton['recipe'], words)}")


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
