#!/usr/bin/env bash
# What one GPU can show in eight minutes, unattended and without a network, most valuable first. Run in the checkout:
#     benchmarks/gpu_quarter_hour.sh FILES REPORTS
# FILES: see benchmarks/gpu_stages.py. Each part has its own limit, and REPORTS has what it had measured.
set -uo pipefail
files=${1:?files of benchmarks.gpu_stages --pack} reports=${2:?directory of the reports}
export PYTHONUNBUFFERED=1
mkdir -p "$reports"
part() {  # NAME SECONDS ARGUMENTS…
  timeout "$2" python3 -m "${@:3}" > "$reports/$1.log" 2>&1
  echo "$1: exit code $?" | tee -a "$reports/parts.txt"
}
part proof-1.5b 120 benchmarks.gpu_proof --seconds 100 --write "$reports/proof-1.5b.md"
part proof-0.5b 60 benchmarks.gpu_proof --model 0.5B --tokens 4096 16384 --seconds 50 --write "$reports/proof-0.5b.md"
part stages 300 benchmarks.gpu_stages "$files" --write "$reports/stages.md"
