"""Write a recipe's curriculum as runs of verl, a directory for each stage: docs/howto/other_trainers.md.

The files have everything that is known before training: the problems that the stage's limits keep, Hydra overrides, a
script that passes each stage's weights on, a README with the rest. Their text is in the templates of `verl/`.
"""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.data_curation.exports import export_problems
from ratchet.infra.pages import render
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.stage import Stage
from ratchet.verifiers.domains import DOMAINS, own_domain_variables
from ratchet.verifiers.errors import RatchetError

TEMPLATES = Path(__file__).with_name("verl")
ESTIMATORS = {
    "grpo": "grpo", "dr_grpo": "grpo", "rloo": "rloo", "reinforce_pp": "reinforce_plus_plus",
    "reinforce_pp_baseline": "reinforce_plus_plus_baseline",
}  # fmt: skip
LOSSES = {  # verl's loss, and how it sums tokens
    "grpo": ("vanilla", "token-mean"), "dr_grpo": ("vanilla", "seq-mean-token-sum-norm"),
    "gspo": ("gspo", "seq-mean-token-mean"), "cispo": ("cispo", "token-mean"),
}  # fmt: skip
MAX_PROMPT_TOKENS = 4096


def write_runs(recipe: Recipe, curated: Mapping[str, Path], output: Path) -> list[str]:
    """Write the runs, and return a line for each stage. `curated` are the files of the curated problems by domain.

    Raises RatchetError for a domain that is not among them, and for a stage that keeps no problem.
    """
    for domain in (domain for stage in recipe.training.stages for domain in stage.mix):
        if domain not in curated:
            raise RatchetError(
                f"The {domain} problems of {recipe.name} are not curated here: run `ratchet curate {domain} "
                f"{recipe.name}` first, with the same --set."
            )
    stages = {f"{number:02}-{stage.name}": stage for number, stage in enumerate(recipe.training.stages, 1)}
    facts = {
        "recipe": recipe, "stages": stages, "estimators": ESTIMATORS, "losses": LOSSES,
        "max_prompt_tokens": MAX_PROMPT_TOKENS, "own_domains": _own_domains(recipe),
    }  # fmt: skip
    lines = []
    for name, stage in stages.items():
        directory = output / name
        directory.mkdir(parents=True, exist_ok=True)
        count = _write_data(recipe, stage, curated, directory / "train.parquet")
        overrides = _written(directory / "overrides.txt", facts, stage=stage)
        lines.append(f"{name}: {count:,} rows, {len(overrides.splitlines())} overrides")
    for file in ("run.sh", "README.md"):
        _written(output / file, facts)
    return lines


def _written(file: Path, facts: Mapping[str, Any], **more: Any) -> str:
    """The text of a file, by the template of its name."""
    text = render(TEMPLATES / f"{file.name}.jinja", **facts, **more).rstrip() + "\n"
    file.write_text(text, encoding="utf-8")
    return text


def _own_domains(recipe: Recipe) -> str:
    own = recipe.domains or any(name not in DOMAINS for stage in recipe.training.stages for name in stage.mix)
    return f"export {own_domain_variables()}" if own else ""


def _write_data(recipe: Recipe, stage: Stage, curated: Mapping[str, Path], target: Path) -> int:
    """The stage's problems, each at least once; those of domains with few are repeated until shares are the mix's."""
    kept = {domain: _kept(stage, curated[domain]) for domain in stage.mix}
    if empty := [domain for domain, problems in kept.items() if not len(problems)]:
        raise RatchetError(f"stage {stage.name} keeps no problem of {', '.join(empty)}: see its max_difficulty.")
    total = max(len(kept[domain]) / share for domain, share in stage.mix.items())
    rows = {domain: round(total * share) for domain, share in stage.mix.items()}
    repeated = [pa.concat_tables([kept[d]] * ceil(count / len(kept[d])))[:count] for d, count in rows.items() if count]
    return export_problems(pa.concat_tables(repeated), target, "verl", recipe.model.prompt)[0]


def _kept(stage: Stage, file: Path) -> pa.Table:
    """Problems within the stage's difficulty; unmeasured ones pass."""
    difficulty, problems = pc.field("difficulty"), pq.read_table(file)
    if stage.max_difficulty is None:
        return problems
    return problems.filter(difficulty.is_null() | (difficulty <= stage.max_difficulty))
