"""What is left of a LoRA adapter when it is merged into bfloat16 weights: KL divergences, in nats per token.

    python -m benchmarks.adapter_merge CHECKPOINT BASE

CHECKPOINT is a stage's directory in a home, BASE the recipe's model. The responses are those of the stage's last step.
"""

import sys
from pathlib import Path

import pyarrow.parquet as pq
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from ratchet.training.adapter import DIRECTORY, FILE, dithered

RESPONSES = 8


def main(checkpoint: Path, base: str) -> None:
    rows = pq.read_table(max((checkpoint / "rollouts").glob("*.parquet"))).to_pylist()
    rows = rows[:: max(1, len(rows) // RESPONSES)][:RESPONSES]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    start = log_probabilities(model, rows)
    weights, scale = dict(model.named_parameters()), scaling(checkpoint)
    exact = {}
    with safe_open(checkpoint / "model" / DIRECTORY / FILE, "pt") as adapter:
        for key in adapter.keys():  # noqa: SIM118 (no dictionary)
            if ".lora_A" in key:
                down, up = (adapter.get_tensor(name).float() for name in (key, key.replace("lora_A", "lora_B")))
                name = key.removeprefix("base_model.model.").replace(".lora_A", "")
                exact[name] = weights[name].data + scale * (up @ down)
    found = {}
    for label, rounded in {
        "exact": lambda weight: weight,
        "nearest": lambda weight: weight.bfloat16().float(),
        "dithered": lambda weight: dithered(weight, torch.bfloat16).float(),
    }.items():
        for name, weight in exact.items():
            weights[name].data = rounded(weight)
        found[label] = log_probabilities(model, rows)
    for one, other in (("exact", "nearest"), ("exact", "dithered")):
        print(f"KL({one} || {other})  {divergence(found[one], found[other]):.2e}")
    for label, scores in found.items():
        print(f"KL({label} || base)  {divergence(scores, start):.2e}")


def scaling(checkpoint: Path) -> float:
    from peft import LoraConfig

    config = LoraConfig.from_pretrained(str(checkpoint / "model" / DIRECTORY))
    return config.lora_alpha / config.r


@torch.no_grad()
def log_probabilities(model, rows: list[dict]) -> list[torch.Tensor]:
    """(response tokens, vocabulary) of each row."""
    found = []
    for row in rows:
        ids = torch.tensor([[*row["prompt_ids"], *row["response_ids"]]])
        found.append(model(ids).logits[0, len(row["prompt_ids"]) - 1 : -1].float().log_softmax(-1))
    return found


def divergence(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    total = sum(float((p.exp() * (p - q)).sum()) for p, q in zip(one, other, strict=True))
    return total / sum(map(len, one))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
