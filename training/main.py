"""One rank of a warm start or a stage: started by `launch.py`, or by `torchrun … -m ratchet.training.main SPEC.json`.

SPEC.json is a `TrainingSpec`.

Writes `metrics.jsonl`, `decisions.jsonl` (dropped prompts with reasons, interventions), `samples.jsonl` (rollouts to
read), `checkpoints/`, then `model/` and last `status.json`; or `pass_rates.jsonl`. The same command continues from the
last checkpoint, to the same weights bit for bit. After a file `stop` appears in the work directory, it saves a
checkpoint at the end of the step and exits. Exit code 0 when finished or stopped, 2 after an error that the user can
fix (also in `status.json`).
"""

import json
import sys
from pathlib import Path

from ratchet.data_curation.base.files import write_atomically
from ratchet.infra.inference import hide_unused_libraries
from ratchet.infra.launching.group import STATUS
from ratchet.training import ranks
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.errors import RatchetError

hide_unused_libraries()


def main(specification: Path) -> int:
    ranks.die_with_launcher()
    spec = TrainingSpec.read(specification)
    work = spec.work_dir
    try:
        for name, path in spec.files.items():
            if not path.exists():
                raise RatchetError(f"{name}: there is no {path}. Rerun the steps that make it.")
        from ratchet.training import process  # torch, transformers and DeepSpeed: seconds

        state, warning, steps = process.run(spec)
    except RatchetError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        if not isinstance(error, ranks.Lost) or not (work / STATUS).is_file():  # otherwise the lost rank said why
            write_status(work, "failed", str(error), 0)
        return 2
    if ranks.rank() == 0:
        write_status(work, state, warning, steps)
    return 0


def write_status(work: Path, state: str, message: str, steps: int) -> None:
    work.mkdir(parents=True, exist_ok=True)
    status = {"state": state, "message": message, "steps": steps}  # if two ranks fail, the last one's remains
    write_atomically(work / STATUS, json.dumps(status, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
