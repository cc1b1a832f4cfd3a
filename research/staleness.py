"""Staleness of groups, and how often a round goes on: `python -m research.staleness [--prompts 128]`.

The schedule of `training/asynchronous.py` with drawn lengths, no model: log-normal with a standard deviation of the
logarithm of 0.78, half of its variance the prompt's, truncated at the limit, 16 responses to a prompt. A row for each
staleness and mean length, as a share of the limit: the rounds that a group takes, the updates that it is in flight (its
first tokens' staleness), their largest number, and the rounds that went on, per update; all over the last 200 of 240
updates.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np

from ratchet.training.asynchronous import RECENT, due, in_flight_wanted

SIGMA, RESPONSES, UPDATES, WARM_UP = 0.78, 16, 240, 40


@dataclass(eq=False)
class Drawn:
    """A prompt whose longest response takes `rounds` rounds."""

    begun: int
    rounds: int
    done: int = 0

    @property
    def complete(self) -> bool:
        return self.done >= self.rounds


def simulate(staleness: int, mean: float, prompts: int, seed: int = 0) -> tuple[float, float, int, float]:
    random, of_prompt = np.random.default_rng(seed), SIGMA * 0.5**0.5
    in_flight: list[Drawn] = []
    expected, taken, ages, extended = float(staleness), [], [], 0

    def begin(step: int, count: int) -> None:
        for _ in range(count):
            logs = random.normal(0, of_prompt) + random.normal(0, of_prompt, RESPONSES)
            longest = min(1.0, mean * math.exp(logs.max() - SIGMA**2 / 2))
            in_flight.append(Drawn(step, math.ceil(longest * staleness)))

    def decode() -> None:
        for each in in_flight:
            each.done += 1

    begin(0, prompts)
    for step in range(UPDATES):
        while (batch := due(in_flight, prompts, staleness, step)) is None:
            decode()
            extended += step >= WARM_UP
        in_flight = [each for each in in_flight if each not in batch]
        rounds = float(np.mean([each.rounds for each in batch]))
        expected += RECENT * (rounds - expected)
        if step >= WARM_UP:
            taken.append(rounds)
            ages += [step - each.begun for each in batch]
        begin(step, max(0, in_flight_wanted(expected, prompts, staleness) - len(in_flight)))
        decode()
    return float(np.mean(taken)), float(np.mean(ages)), max(ages), extended / (UPDATES - WARM_UP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=128)
    prompts = parser.parse_args().prompts
    print("| staleness | mean length | rounds of a group | updates in flight | most | rounds that went on |")
    print("|---:|---:|---:|---:|---:|---:|")
    for staleness in (1, 2, 4, 8):
        for mean in (0.1, 0.2, 0.5):
            rounds, age, most, extended = simulate(staleness, mean, prompts)
            print(f"| {staleness} | {mean} | {rounds:.2f} | {age:.2f} | {most} | {extended:.2f} |")


if __name__ == "__main__":
    main()
