"""OpenRLHF's own data set and its executor of single turns, which asks our function file or our server for rewards.

Arguments: the export's Parquet file, JSON lines {row, response}, and what `--reward.remote_url` would be. The engine
only repeats the given responses.
"""

import asyncio
import json
import sys
from types import SimpleNamespace

from bytes_tokenizer import bytes_tokenizer
from openrlhf.datasets.prompts_dataset import PromptDataset
from openrlhf.datasets.utils import blending_datasets
from openrlhf.utils.agent import SingleTurnAgentExecutor


class Repeater:
    def __init__(self, tokenizer, response):
        self.ids = [*tokenizer.encode(response), tokenizer.eos_token_id]

    async def generate(self, prompt_ids, parameters, multi_modal_data=None):
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=self.ids, finish_reason="stop", logprobs=None)])


def main(file, pairs, url):
    tokenizer = bytes_tokenizer(eos="<|im_end|>")
    data = SimpleNamespace(
        input_key="prompt", label_key="ratchet_problem", apply_chat_template=True, image_key="images"
    )
    strategy = SimpleNamespace(args=SimpleNamespace(data=data), is_rank_0=lambda: True, print=lambda *_: None)
    rows = PromptDataset(blending_datasets(file, strategy=strategy), tokenizer, strategy)
    executor = SingleTurnAgentExecutor(url)
    parameters = SimpleNamespace(max_tokens=100, logprobs=None)

    async def one(pair):
        _, prompt, label, _ = rows[pair["row"]]
        engine = Repeater(tokenizer, pair["response"])
        return (await executor.execute(prompt, label, parameters, 100_000, tokenizer, engine))["reward"]

    async def every():
        return [await one(json.loads(line)) for line in open(pairs)]

    print(json.dumps({"rows": len(rows), "rewards": asyncio.run(every())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
