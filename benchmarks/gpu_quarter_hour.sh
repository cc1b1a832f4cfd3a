#!/usr/bin/env bash
# What one GPU can show in ten minutes, unattended and without a network, most valuable first. Run in the checkout:
#     benchmarks/gpu_quarter_hour.sh REPORTS
# The last part needs Ratchet installed; the others need torch, transformers, DeepSpeed and pydantic. Each part has its own
# limit, and REPORTS has what it had measured. 64 GB of disk.
set -uo pipefail
reports=${1:?directory of the reports}
export PYTHONUNBUFFERED=1
mkdir -p "$reports"
part() {  # NAME SECONDS ARGUMENTS…
  timeout -s INT -k 20 "$2" python3 -m "${@:3}" > "$reports/$1.log" 2>&1  # interrupted, a part removes its files
  echo "$1: exit code $?" | tee -a "$reports/parts.txt"
}
part proof-1.5b 150 benchmarks.gpu_proof --seconds 100 --write "$reports/proof-1.5b.md"
part steps 200 benchmarks.gpu_steps --seconds 90 --write "$reports/steps.md"
part run 300 ratchet.cli.main run tiny --home "$reports/home" --set training.hardware.processes=1 \
  --set training.hardware.dtype=bfloat16 --set training.hardware.micro_batch_tokens=24000
