"""The name of a run: recipe, seed, flow, and the fields that `--set` changed."""

import re
from collections.abc import Sequence

SECTIONS = {"training", "evaluation", "curation", "stages", "advanced", "*"}
"""Parts of a field's path that add little to the rest of it."""
IN_THE_NAME = {"name", "seed"}
LONGEST, LONGEST_VALUE = 120, 32
"""Most characters of a name, and of a value in it."""


def run_name(recipe: str, seed: int, flow: str, overrides: Sequence[str]) -> str:
    """Name a run `tiny-seed0-pipeline`; with overrides `tiny-seed0-pipeline,math-36.steps=10,checkpoint_every=5`,
    written as Hydra names the folders of its jobs, in characters that are safe in files and shells. Overrides are
    `KEY=VALUE`, as `--set` takes them; the last one of a field counts, and those that do not fit are counted:
    `…,+2`."""
    name = f"{recipe}-seed{seed}-{flow}"
    changed = {key: value for key, _, value in (override.partition("=") for override in overrides)}
    words = [f"{_field(key)}={_value(value)}" for key, value in changed.items() if key not in IN_THE_NAME]
    for number, word in enumerate(words):
        if len(name) + len(word) > LONGEST:
            return f"{name},+{len(words) - number}"
        name += f",{word}"
    return name


def _field(path: str) -> str:
    return ".".join(part for part in path.strip().split(".") if part not in SECTIONS) or path.strip()


def _value(text: str) -> str:
    """The last part of a path; a URL without its scheme."""
    text = re.sub(r"https?://([^\s,\]\"']*)", lambda url: url[1].replace("/", "-"), text)
    text = re.sub(r"[^\s,\[\]{}\"']*/(?=[^\s,\[\]{}\"'/])", "", text)
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text.strip(" []{}\"'\n"))[:LONGEST_VALUE]
