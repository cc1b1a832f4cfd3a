"""Tokens per CPU second of the default inference engine against Hugging Face `generate`, same model, same prompts, and
against the matrix products alone: what a whole batch's linear layers take for a token, with nothing between them.

    OMP_NUM_THREADS=1 python -m benchmarks.rollout_engine [--model DIRECTORY] [--prompts 16] [--samples 16]
    VLLM_ENABLE_V1_MULTIPROCESSING=0 OMP_NUM_THREADS=1 python -m benchmarks.rollout_engine --model DIRECTORY --vllm
    OMP_NUM_THREADS=1 python -m benchmarks.rollout_engine --model DIRECTORY --gguf F32.gguf BF16.gguf

Without `--model` a random one of the tiny recipe's size is grown. All take turns, so that a busy machine is unfair to
none; the median of the rounds is reported. Each gives the log-probability of each token that it samples. `--vllm` needs
vLLM, which must compute in this process for its CPU seconds to count; `--gguf` needs `llama-cpp-python`, and files that
its `convert_hf_to_gguf.py` has made of the model.
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


def vllm_contender(path: str, stop_ids: list[int], given: list[tuple[int, ...]], samples: int, limit: int):
    from vllm import LLM, SamplingParams

    llm = LLM(path, dtype="float32", max_model_len=limit + 64, disable_log_stats=True)
    asked = SamplingParams(n=samples, temperature=1.0, max_tokens=limit, logprobs=0, stop_token_ids=stop_ids)
    texts = [{"prompt_token_ids": list(p)} for p in given]
    return lambda: sum(len(o.token_ids) for r in llm.generate(texts, asked, use_tqdm=False) for o in r.outputs)


def llama_contender(path: str, stop_ids: list[int], given: list[tuple[int, ...]], samples: int, limit: int):
    """llama.cpp's batched decoding: a prompt is read once, its samples are sequences that share its cache."""
    import llama_cpp
    import numpy

    rows, longest = len(given) * samples, max(map(len, given))
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx, settings.n_seq_max = rows * (longest + limit), rows
    settings.n_batch = settings.n_ubatch = max(rows, longest)
    settings.n_threads = settings.n_threads_batch = torch.get_num_threads()
    settings.type_k = settings.type_v = 0  # float32
    settings.kv_unified = True
    context = llama_cpp.llama_init_from_model(model, settings)
    batch = llama_cpp.llama_batch_init(max(rows, longest), 0, 1)
    ends = torch.tensor(stop_ids)

    def logprobs(tokens: list[tuple[int, int, int, bool]]) -> torch.Tensor:
        """(token, position, sequence, whether it is asked for) each to [asked, vocabulary]."""
        batch.n_tokens = len(tokens)
        for i, (token, position, row, is_asked) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, is_asked
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
        if llama_cpp.llama_decode(context, batch):
            raise SystemExit("llama.cpp cannot decode this batch")
        shape = (sum(is_asked for *_, is_asked in tokens), vocabulary)
        logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(context), shape)
        return torch.from_numpy(logits).log_softmax(-1)

    def run() -> int:
        memory = llama_cpp.llama_get_memory(context)
        llama_cpp.llama_memory_clear(memory, True)
        first = []
        for p, ids in enumerate(given):
            row = p * samples
            first.append(logprobs([(token, i, row, i == len(ids) - 1) for i, token in enumerate(ids)]))
            for other in range(1, samples):
                llama_cpp.llama_memory_seq_cp(memory, row, row + other, -1, -1)
        chances = torch.cat(first).repeat_interleave(samples, 0)
        alive, count = torch.arange(rows), 0
        for step in range(limit):
            tokens = chances.exp().multinomial(1)
            chances.gather(1, tokens)  # what an engine returns with each token
            count += len(alive)
            goes_on = ~torch.isin(tokens[:, 0], ends)
            alive, tokens = alive[goes_on], tokens[goes_on]
            if step == limit - 1 or not len(alive):
                break
            places = [len(given[row // samples]) + step for row in alive.tolist()]
            asked = zip(tokens[:, 0].tolist(), places, alive.tolist(), strict=True)
            chances = logprobs([(token, place, row, True) for token, place, row in asked])
        return count

    return run


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
    parser.add_argument("--vllm", action="store_true", help="with vLLM too")
    parser.add_argument("--gguf", nargs="*", default=[], help="with llama.cpp too, of each of these files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = arguments.model or str(Path(scratch) / "model")
        if not arguments.model:
            grow(load_recipe("tiny").model.grow, ["Start at 5. What is left?"], 0, Path(path))
        engine = TransformersEngine.load(path, batch_size=arguments.prompts * arguments.samples)
    given = prompts(arguments.prompts, engine.model.config.vocab_size)
    shape = (given, arguments.samples, arguments.max_tokens)
    contenders = {
        "engine": lambda: engine_tokens(engine, *shape),
        "generate": lambda: generate_tokens(engine, *shape),
        "products": lambda: products(engine, arguments.prompts * arguments.samples, arguments.max_tokens // 4),
    }
    if arguments.vllm:
        contenders["vllm"] = vllm_contender(path, [*engine.stop_ids], *shape)
    for file in arguments.gguf:
        contenders[Path(file).stem] = llama_contender(file, [*engine.stop_ids], *shape)
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(arguments.rounds + 1):
        for name, run in contenders.items():
            started = time.process_time()
            tokens = run()
            if round_number:  # the first round warms up
                speeds[name].append(tokens / (time.process_time() - started))
    print(f"{arguments.prompts} prompts x {arguments.samples} samples, up to {arguments.max_tokens} tokens, "
          f"{torch.get_num_threads()} thread(s)")  # fmt: skip
    medians = {name: statistics.median(rates) for name, rates in speeds.items()}
    for name, median in medians.items():
        print(f"{name:20} {median:10,.0f} tokens per CPU second, engine {medians['engine'] / median:.2f} times that")


if __name__ == "__main__":
    main()
