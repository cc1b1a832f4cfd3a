"""NeMo RL's own data set, processor and registry of environments, and ours as a Ray actor.

Arguments: the export's Parquet file, and JSON lines {row, response}.
"""

import json
import os
import sys

import ray
import torch
from bytes_tokenizer import bytes_tokenizer
from nemo_rl.data.datasets.response_datasets import load_response_dataset
from nemo_rl.environments.utils import create_env

from ratchet.verifiers.adapters.nemo_rl import register


def main(file, pairs):
    tokenizer = bytes_tokenizer(eos="<|im_end|>")
    names = {"input_key": "input", "output_key": "ratchet_problem", "processor": "math_hf_data_processor"}
    data = load_response_dataset({"dataset_name": "ResponseDataset", "data_path": file, **names})
    os.environ["RAY_raylet_start_wait_time_s"] = "400"  # noqa: SIM112  on a busy machine its default is too short
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    register()
    environment = create_env("ratchet", {"servers": "", "workers": 1})
    logs, facts = [], []
    for pair in map(json.loads, open(pairs)):
        row = data.processor(data.dataset[pair["row"]], data.task_spec, tokenizer, 100_000, pair["row"])
        logs.append([*row["message_log"], {"role": "assistant", "content": pair["response"] + "<|im_end|>"}])
        facts.append(row["extra_env_info"])
    step = ray.get(environment.step.remote(logs, facts))
    ended = torch.ones(len(logs))
    ended[0] = 0
    batch = {"rewards": step.rewards, "is_end": ended}
    _, metrics = ray.get(environment.global_post_process_and_metrics.remote(batch))
    print(json.dumps({"rewards": step.rewards.tolist(), "ends": step.terminateds.tolist(), **metrics}))


if __name__ == "__main__":
    main(*sys.argv[1:])
