"""Tokens per CPU second of the default inference engine against Hugging Face `generate`, same model, same prompts, and
against the matrix products alone: what a whole batch's linear layers take for a token, with nothing between them.

    OMP_NUM_THREADS=1 python -m benchmarks.rollout_engine [--model DIRECTORY] [--prompts 16] [--samples 16]

Without `--model` a random one of the tiny recipe's size is grown. All take turns, so that a busy machine is unfair to
none; the median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from random import Random

import torch

from ratchet.data_curation.base.protocol import Request, Sampling, derive_seed
from ratchet.infra.inference.transformers_engine import TransformersEngine
from ratchet.infra.recipe.load import load_recipe
from ratchet.training.growth import grow


def prompts(count: int, vocabulary: int) -> list[tuple[int, ...]]:
    """Random token ids of the lengths that prompts of the tiny world have."""
    random = Random(0)
    return [tuple(random.randrange(vocabulary // 2) for _ in range(random.randint(8, 30))) for _ in range(count)]


def engine_tokens(engine: TransformersEngine, given: list[tuple[int, ...]], samples: int, limit: int) -> int:
    requests = [Request((i, s), derive_seed(i, s), p) for i, p in enumerate(given) for s in range(samples)]
    return sum(completion.tokens for completion in engine.generate(requests, Sampling(max_tokens=limit)))


def generate_tokens(engine: TransformersEngine, given: list[tuple[int, ...]], samples: int, limit: int) -> int:
    width = max(map(len, given))
    ids = torch.tensor([(0,) * (width - len(p)) + p for p in given])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in given])
    torch.manual_seed(0)
    out = engine.model.generate(
        input_ids=ids, attention_mask=mask, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
        max_new_tokens=limit, num_return_sequences=samples, pad_token_id=engine.stop_ids[0],
    )  # fmt: skip
    new = out[:, width:]
    stopped = torch.isin(new, torch.tensor(engine.stop_ids))
    # Tokens up to and including the first stop; what follows is padding.
    return int(torch.where(stopped.any(1), stopped.int().argmax(1) + 1, new.shape[1]).sum())


def products(engine: TransformersEngine, rows: int, steps: int) -> int:
    layers = [module for module in engine.model.modules() if isinstance(module, torch.nn.Linear)]
    given = {layer.in_features: torch.randn(rows, layer.in_features) for layer in layers}
    with torch.no_grad():
        for _ in range(steps):
            for layer in layers:
                layer(given[layer.in_features])
    return rows * steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = arguments.model or str(Path(scratch) / "model")
        if not arguments.model:
            grow(load_recipe("tiny").model.grow, ["Start at 5. What is left?"], 0, Path(path))
        engine = TransformersEngine.load(path, batch_size=arguments.prompts * arguments.samples)
    given = prompts(arguments.prompts, engine.model.config.vocab_size)
    speeds: dict[str, list[float]] = {"engine": [], "generate": [], "products": []}
    asked = (engine, given, arguments.samples, arguments.max_tokens)
    contenders = {
        "engine": lambda: engine_tokens(*asked),
        "generate": lambda: generate_tokens(*asked),
        "products": lambda: products(engine, arguments.prompts * arguments.samples, arguments.max_tokens // 4),
    }
    for round_number in range(arguments.rounds + 1):
        for name, run in contenders.items():
            started = time.process_time()
            tokens = run()
            if round_number:  # the first round warms up
                speeds[name].append(tokens / (time.process_time() - started))
    ours, theirs, limit = (statistics.median(speeds[name]) for name in speeds)
    print(f"{arguments.prompts} prompts x {arguments.samples} samples, up to {arguments.max_tokens} tokens, "
          f"{torch.get_num_threads()} thread(s)")  # fmt: skip
    print(f"engine    {ours:10,.0f} tokens per CPU second")
    print(f"generate  {theirs:10,.0f} tokens per CPU second")
    print(f"products  {limit:10,.0f} tokens per CPU second")
    print(f"engine / generate {ours / theirs:.2f}, engine / products {ours / limit:.2f}")


if __name__ == "__main__":
    main()
