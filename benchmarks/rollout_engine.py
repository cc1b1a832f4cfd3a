"""Tokens per second of the default inference engine against Hugging Face `generate`, same model, same prompts.

    python -m benchmarks.rollout_engine [--model DIRECTORY] [--prompts 16] [--samples 16] [--max-tokens 64]

Without `--model` a random one of the tiny recipe's size is grown. Both sample at temperature 1 on this process's
threads, in turns, so that a busy machine is unfair to neither; the median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from random import Random

import torch

from ratchet.infra.inference.protocol import Request, Sampling, derive_seed
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
    speeds: dict[str, list[float]] = {"engine": [], "generate": []}
    for round_number in range(arguments.rounds + 1):
        for name, run in (("engine", engine_tokens), ("generate", generate_tokens)):
            started = time.perf_counter()
            tokens = run(engine, given, arguments.samples, arguments.max_tokens)
            if round_number:  # the first round warms up
                speeds[name].append(tokens / (time.perf_counter() - started))
    ours, theirs = (statistics.median(speeds[name]) for name in ("engine", "generate"))
    print(f"{arguments.prompts} prompts x {arguments.samples} samples, up to {arguments.max_tokens} tokens, "
          f"{torch.get_num_threads()} thread(s)")  # fmt: skip
    print(f"engine    {ours:10,.0f} tokens/s")
    print(f"generate  {theirs:10,.0f} tokens/s")
    print(f"ratio     {ours / theirs:10.2f}")


if __name__ == "__main__":
    main()
