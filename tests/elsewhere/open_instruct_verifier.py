"""open-instruct's own rewards with our verifier among its verifiers.

Arguments: the export's Parquet file, and JSON lines {row, response}.
"""

import asyncio
import json
import pickle
import sys
from types import SimpleNamespace

from datasets import load_dataset
from open_instruct.ground_truth_utils import RewardConfig, build_all_verifiers

from ratchet.verifiers.adapters import open_instruct


def main(file, pairs):
    open_instruct.verifier()
    settings = {name: 0 for name in ("code_max_execution_time", "code_pass_rate_reward_threshold", "seed")}
    settings |= {f"llm_judge_{name}": 0 for name in ("max_tokens", "max_context_length", "temperature", "timeout")}
    settings |= {"code_apply_perf_penalty": False, "llm_judge_model": "", "remap_verifier": None}
    arguments = SimpleNamespace(code_api_url="http://127.0.0.1:9/test_program", **settings)
    verifiers = build_all_verifiers(arguments, arguments)
    config = RewardConfig(
        verification_reward=1.0, verifier_functions=pickle.loads(pickle.dumps({"ratchet": verifiers["ratchet"]}))
    )
    rows = load_dataset("parquet", data_files=file, split="train")
    asked = [json.loads(line) for line in open(pairs)]
    chosen, responses = [rows[pair["row"]] for pair in asked], [pair["response"] for pair in asked]
    nothing = [[]] * len(asked)
    infos = SimpleNamespace(
        timeouts=nothing, tool_errors=nothing, tool_outputs=nothing, tool_calleds=nothing, rollout_states=None
    )
    truths, sources = [[row["ground_truth"]] for row in chosen], [[row["dataset"]] for row in chosen]
    scores, metrics = asyncio.run(config.build()(nothing, responses, truths, sources, ["stop"] * len(asked), infos))
    print(json.dumps({"rewards": scores, "metrics": sorted(metrics)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
