"""Our reward function for TRL against TRL's `accuracy_reward`: the same completions in one process, in turns.

    python benchmarks/trl_rewards.py [--rounds 5] [--completions 2048]

Runs with an interpreter that has trl, math-verify and ratchet-verifiers. Completions are chats in batches of 64, as a
trainer asks, that end with a short answer in a box: integers (60 %), fractions (20 %), radicals and pairs, half of them
right. Prints completions a second of both, the ratio in each round, and how often each is right. On a busy machine
compare CPU seconds.
"""

import argparse
import json
import random
import resource
import statistics
import time

from ratchet.verifiers.adapters.trl import ratchet_reward

BATCH = 64


def cpu_seconds():
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def timed(reward, batches):
    """(seconds, CPU seconds with those of child processes, rewards)"""
    begin, cpu, earned = time.perf_counter(), cpu_seconds(), []
    for completions, columns in batches:
        earned += reward(prompts=None, completions=completions, **columns)
    return time.perf_counter() - begin, cpu_seconds() - cpu, earned


def pairs(count: int, seed: int) -> list[tuple[str, str, bool]]:
    """(reference, answer, whether it is right)"""
    draw, made = random.Random(seed), []
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


def batched(rows):
    for first in range(0, len(rows), BATCH):
        part = rows[first : first + BATCH]
        texts = [f"We compute it in two steps, and the answer is $\\boxed{{{answer}}}$." for _, answer, _ in part]
        problems = [json.dumps({"domain": "math", "answer": reference}) for reference, _, _ in part]
        columns = {"solution": [f"$\\boxed{{{reference}}}$" for reference, _, _ in part], "ratchet_problem": problems}
        yield [[{"role": "assistant", "content": text}] for text in texts], columns


def main() -> None:
    from trl.rewards import accuracy_reward

    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--completions", type=int, default=2048)
    asked = parser.parse_args()
    rewards = {"ratchet": ratchet_reward, "trl": accuracy_reward}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in rewards}
    right = dict.fromkeys(rewards, 0)
    for reward in rewards.values():
        timed(reward, [*batched(pairs(BATCH, -1))])
    for seed in range(asked.rounds):  # others in each round: both remember what they have parsed
        rows = pairs(asked.completions, seed)
        for name, reward in rewards.items():
            *seconds, earned = timed(reward, [*batched(rows)])
            taken[name].append((seconds[0], seconds[1]))
            right[name] += sum(bool(reward) is row[2] for reward, row in zip(earned, rows, strict=True))
    for name in rewards:
        wall, cpu = (asked.completions / statistics.median(column) for column in zip(*taken[name], strict=True))
        share = right[name] / asked.rounds / asked.completions
        print(f"{name}: {wall:,.0f} completions/s, {cpu:,.0f} per CPU second, {share:.1%} right")
    for number, what in enumerate(("seconds", "CPU seconds")):
        ratios = [theirs[number] / ours[number] for ours, theirs in zip(taken["ratchet"], taken["trl"], strict=True)]
        print(f"ratio of {what} {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
