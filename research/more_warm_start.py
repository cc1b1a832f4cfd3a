"""The control: the compute of all stages spent on more supervised warm start instead.

    python -m research.more_warm_start --seed 0

Runs the tiny recipe, adds up the seconds that its warm start and its stages took, and runs it again without stages
and with as many more teacher traces as those seconds would have paid for. Prints both evaluations.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ratchet.infra.recipe import load_recipe
from research.seeds import ROOT, means, read_scores, run_seed


def checkpoint_seconds(home: Path) -> dict[str, float]:
    """Seconds of training by step: `warm_start`, and `train` for all stages together."""
    seconds: dict[str, float] = {}
    for manifest_file in home.glob("artifacts/checkpoint/*/manifest.json"):
        manifest = json.loads(manifest_file.read_text())
        seconds[manifest["step"]] = seconds.get(manifest["step"], 0.0) + manifest["seconds"]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet" / "seeds")
    arguments = parser.parse_args()
    pipeline, control = arguments.home / str(arguments.seed), arguments.home / f"{arguments.seed}-control"
    run_seed(arguments.seed, pipeline, [])
    seconds = checkpoint_seconds(pipeline)
    factor = 1 + seconds["train"] / seconds["warm_start"]
    traces = round(load_recipe("tiny").training.warm_start.traces * factor)
    print(f"warm start {seconds['warm_start']:.0f} s, stages {seconds['train']:.0f} s: control with {traces:,} traces")
    overrides = ["training.stages=[]", "evaluation.after=[start]", f"training.warm_start.traces={traces}"]
    run_seed(arguments.seed, control, overrides)
    for name, home in (("pipeline", pipeline), ("control", control)):
        print(f"\n{name}\n" + "\n".join(means({arguments.seed: read_scores(home, arguments.seed)})))


if __name__ == "__main__":
    main()
