"""verl's own configuration, data set and reward managers over an export, on a CPU.

Arguments: the export's Parquet file, and JSON lines {row, response}. Prints the rewards of each manager.
"""

import asyncio
import json
import sys

import numpy
import torch
from bytes_tokenizer import bytes_tokenizer
from hydra import compose, initialize_config_module
from verl import DataProto
from verl.trainer.ppo.reward import get_custom_reward_fn, load_reward_manager
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.reward_manager import get_reward_manager_cls

ADAPTER = "reward.custom_reward_function.path=pkg://ratchet.verifiers.adapters.verl"


def configured(file, *overrides):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [f"data.train_files={file}", f"data.val_files={file}", ADAPTER, *overrides])


def batch(rows, responses, tokenizer):
    prompts = torch.full((len(rows), 1), tokenizer.pad_token_id)
    ids = [tokenizer.encode(response) for response in responses]
    width = max(map(len, ids)) + 1
    padded = torch.tensor([own + [tokenizer.pad_token_id] * (width - len(own)) for own in ids])
    mask = torch.tensor([[1] * (1 + len(own)) + [0] * (width - len(own)) for own in ids])
    tensors = {"prompts": prompts, "responses": padded, "attention_mask": mask}
    names = ("data_source", "reward_model", "extra_info")
    others = {name: numpy.array([row[name] for row in rows], dtype=object) for name in names}
    return DataProto.from_dict(tensors, others)


def main(file, pairs):
    tokenizer, config = bytes_tokenizer(), configured(file)
    data = RLHFDataset([file], tokenizer, config.data)
    asked = [json.loads(line) for line in open(pairs)]
    rows = [data[pair["row"]] for pair in asked]
    responses = [pair["response"] for pair in asked]
    assert rows[0]["raw_prompt"][0]["role"] == "user"

    manager = load_reward_manager(config, tokenizer)
    loop = asyncio.get_event_loop_policy().get_event_loop()
    singles = [batch([row], [response], tokenizer) for row, response in zip(rows, responses, strict=True)]
    earned = [loop.run_until_complete(manager.run_single(single))["reward_score"] for single in singles]

    many = configured(file, "reward.custom_reward_function.name=compute_scores")
    legacy = get_reward_manager_cls("batch")(tokenizer, 0, get_custom_reward_fn(many))
    tensor = legacy(batch(rows, responses, tokenizer), return_dict=True)["reward_tensor"]
    printed = {
        "rows": len(data), "manager": type(manager).__name__, "one": earned, "batch": tensor.sum(dim=1).tolist(),
        "lengths": config.data.max_response_length,
    }  # fmt: skip
    print(json.dumps(printed))


if __name__ == "__main__":
    main(*sys.argv[1:])
