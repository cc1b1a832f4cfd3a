"""Three steps of TRL's GRPOTrainer on a random model of a few thousand parameters, with our rewards."""

import json
import os
import re
import sys
import tempfile

from bytes_tokenizer import CHAT
from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from ratchet.verifiers.adapters.trl import ratchet_reward, reward_function


def tiny():
    words = ["<pad>", "<eos>", "\\boxed{", "}", "```python\n", "\n```\n", "print(int(input())+", ")", *"0123456789"]
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*words, "<unk>"])}, "<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    tokenizer.chat_template = CHAT
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 256}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    config = Qwen2Config(vocab_size=len(words) + 1, eos_token_id=1, pad_token_id=0, **size, **heads)
    return Qwen2ForCausalLM(config), tokenizer


def main(file: str, plain: bool) -> None:
    data = load_dataset("parquet", data_files=file, split="train")
    if plain:
        data = data.map(lambda row: {"prompt": row["prompt"][0]["content"]})
    model, tokenizer = tiny()
    seen = []

    def watched(prompts, completions, **columns):
        rewards = ratchet_reward(prompts, completions, **columns)
        seen.extend(zip([json.loads(text)["domain"] for text in columns["ratchet_problem"]], rewards, strict=True))
        return rewards

    args = GRPOConfig(
        tempfile.mkdtemp(), per_device_train_batch_size=8, num_generations=4, max_completion_length=12, max_steps=3,
        report_to=[], use_cpu=True, logging_steps=1, save_strategy="no", bf16=False,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model, [watched, reward_function(graded="code")], args=args, train_dataset=data, processing_class=tokenizer
    )
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "reward" in entry]
    printed = {
        "parameters": sum(p.numel() for p in model.parameters()), "steps": trainer.state.global_step, "seen": seen,
        "logged": sorted(logs[0]), "errors": [entry.get("ratchet/infra_errors") for entry in logs],
    }  # fmt: skip
    print(json.dumps(printed))


def readme(directory: str) -> None:
    """The README's program, on a CPU, with the tiny model for the one that it names."""
    model, tokenizer = tiny()
    model.save_pretrained(f"{directory}/tiny")
    tokenizer.save_pretrained(f"{directory}/tiny")
    os.chdir(directory)
    [program] = re.findall(r"```python\n(.*?)```", open("README.md").read(), re.DOTALL)
    names: dict = {}
    here = {"Qwen/Qwen2.5-1.5B-Instruct": "./tiny", 'output_dir="trained"': 'output_dir="trained", use_cpu=True'}
    for written, instead in here.items():
        assert written in program
        program = program.replace(written, instead)
    exec(program, names)
    print(json.dumps({"rows": len(names["data"]), "files": sorted(os.listdir("trained"))}))


if __name__ == "__main__":
    readme(sys.argv[1]) if sys.argv[2] == "readme" else main(sys.argv[1], sys.argv[2] == "plain")
