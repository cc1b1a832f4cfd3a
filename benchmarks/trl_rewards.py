"""Our reward function for TRL against TRL's `accuracy_reward`: the same completions in one process, in turns.

    python benchmarks/trl_rewards.py [--rounds 5] [--completions 2048]

Runs with an interpreter that has trl, math-verify and ratchet-verifiers. Completions are chats in batches of 64, as a
trainer asks, that end with a short answer in a box: integers (60 %), fractions (20 %), radicals and pairs, half of them
right. Prints completions a second of both, their ratio in each round, and how often each is right.
"""

import argparse
import json
import random
import statistics
import time

from ratchet.verifiers.adapters.trl import ratchet_reward

BATCH = 64


def timed(reward, batches):
    begin, earned = time.perf_counter(), []
    for completions, columns in batches:
        earned += reward(prompts=None, completions=completions, **columns)
    return time.perf_counter() - begin, earned


def pairs(count: int) -> list[tuple[str, str, bool]]:
    """(reference, answer, whether it is right)"""
    draw, made = random.Random(0), []
    for number in range(count):
        n, right = draw.randint(2, 999), number % 2 == 0
        k = n if right else n + draw.randint(1, 9)
        kind = draw.choices(("integer", "fraction", "radical", "pair"), (60, 20, 10, 10))[0]
        reference, answer = {
            "integer": (f"{n}", f"{k}"),
            "fraction": (f"\\frac{{{n}}}{{1001}}", f"\\frac{{{2 * k}}}{{2002}}"),
            "radical": (f"{2 * n}\\sqrt{{3}}", f"{k}\\sqrt{{12}}"),
            "pair": (f"({n}, -1)", f"({k}, -1)"),
        }[kind]
        made.append((reference, answer, right))
    return made


def main() -> None:
    from trl.rewards import accuracy_reward

    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--completions", type=int, default=2048)
    asked = parser.parse_args()
    rows, batches = pairs(asked.completions), []
    for first in range(0, len(rows), BATCH):
        part = rows[first : first + BATCH]
        texts = [f"We compute it in two steps, and the answer is $\\boxed{{{answer}}}$." for _, answer, _ in part]
        problems = [json.dumps({"domain": "math", "answer": reference}) for reference, _, _ in part]
        columns = {"solution": [f"$\\boxed{{{reference}}}$" for reference, _, _ in part], "ratchet_problem": problems}
        batches.append(([[{"role": "assistant", "content": text}] for text in texts], columns))
    rewards = {"ratchet": ratchet_reward, "trl": accuracy_reward}
    seconds: dict[str, list[float]] = {name: [] for name in rewards}
    earned = {}
    for reward in rewards.values():
        timed(reward, batches[:1])
    for _ in range(asked.rounds):
        for name, reward in rewards.items():
            took, earned[name] = timed(reward, batches)
            seconds[name].append(took)
    for name in rewards:
        right = sum(bool(reward) is row[2] for reward, row in zip(earned[name], rows, strict=True))
        rate = len(rows) / statistics.median(seconds[name])
        print(f"{name}: {rate:,.0f} completions/s, {right / len(rows):.1%} right")
    ratios = [theirs / ours for ours, theirs in zip(seconds["ratchet"], seconds["trl"], strict=True)]
    print(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {len(rows):,} completions")


if __name__ == "__main__":
    main()
