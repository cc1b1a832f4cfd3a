"""One rank of a warm start or a stage: started by `launch.py`, or by `torchrun … -m ratchet.training.main SPEC.json`.

The specification, JSON:
    kind         "warm_start", "stage", "pass_rates", which only measures what a stage is to be given, or "preflight"
    recipe       the resolved recipe
    stage        the stage's name
    model_dir    the model a stage starts from
    problems     {domain: kept.parquet, …} of the stage's mix
    pass_rates   pass_rates.jsonl of the measurement, where the stage has a max_pass_rate
    traces       Parquet with columns prompt (the user turn) and response, for a warm start
    validation   {benchmark: Parquet, …} where something depends on a validation score
    work_dir     where everything is written

Written: `metrics.jsonl`, `decisions.jsonl` (every prompt dropped and why, every reset), `samples.jsonl` (rollouts to
read), `checkpoints/`, then `model/` and last `status.json`; or `pass_rates.jsonl`. The same command again continues
from the last checkpoint, to the same weights bit for bit.
A file `stop` in the work directory has it save a checkpoint after the step at work, and end.
Ends with 0 when finished or stopped, 2 after an error that the user can fix (also in `status.json`).
"""

import json
import sys
from pathlib import Path
from typing import Any

from ratchet.infra.artifacts import write_atomically
from ratchet.infra.errors import RatchetError
from ratchet.training import ranks

# Packages that DeepSpeed and transformers load only because they are installed; together they double the start-up.
# None is Python's own way to say "not importable".
for name in ("mlflow", "scipy", "sklearn"):
    sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def main(specification: Path) -> int:
    ranks.die_with_launcher()
    spec = json.loads(specification.read_text())
    work = Path(spec["work_dir"])
    try:
        _check_files(spec)
        from ratchet.training import process  # torch, transformers and DeepSpeed: seconds

        state, steps = process.run(spec, work)
    except RatchetError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        if not isinstance(error, ranks.Lost) or not (work / "status.json").is_file():  # else it has said why
            write_status(work, "failed", str(error), 0)
        return 2
    if ranks.rank() == 0:
        write_status(work, state, "", steps)
    return 0


def _check_files(spec: dict[str, Any]) -> None:
    files = {name: spec[name] for name in ("model_dir", "traces", "pass_rates")}
    for kind in ("problems", "validation"):
        files |= {f"{kind}.{domain}": path for domain, path in spec[kind].items()}
    for name, path in files.items():
        if path is not None and not Path(path).exists():
            raise RatchetError(f"{name}: there is no {path}. Run the steps that make it again.")


def write_status(work: Path, state: str, message: str, steps: int) -> None:
    work.mkdir(parents=True, exist_ok=True)
    status = {"state": state, "message": message, "steps": steps}  # two ranks may fail at once: the last one's stays
    write_atomically(work / "status.json", json.dumps(status, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
