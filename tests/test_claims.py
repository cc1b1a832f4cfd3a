"""Pre-registered claims: questions are the units, and a verdict follows from the interval and the claim's floor."""

import json

import pytest

from research.claims import Claim, read_seed, table
from research.claims import counts as counts_of

QUESTIONS = 60
RAISES, KEEPS = Claim("a gain", "b", "start", "end"), Claim("no loss above 0.1", "b", "start", "end", floor=-0.1)


def counts(solved: int, seeds: int = 3):
    return {("b", seed, str(q)): (int(q < solved), 1) for seed in range(seeds) for q in range(QUESTIONS)}


@pytest.mark.parametrize(
    ("before", "after", "verdicts"),
    [
        (10, 30, ["supported", "supported"]),
        (30, 10, ["contradicted", "contradicted"]),
        (30, 30, ["inconclusive", "supported"]),
        (30, 26, ["inconclusive", "inconclusive"]),
    ],
)
def test_verdicts(before, after, verdicts):
    lines = table([RAISES, KEEPS], {"start": counts(before), "end": counts(after)}, 3)[2:]
    assert [line.split(" | ")[-1].removesuffix(" |") for line in lines] == verdicts
    change = f"{(after - before) / QUESTIONS:+.3f}"
    assert all(line.split(" | ")[1:4] == [change] * 3 for line in lines)


def test_three_seeds_of_the_same_questions_are_no_more_questions():
    """Seeds that all agree add nothing: the interval is that of one seed."""
    ends = [
        table([RAISES], {"start": counts(10, seeds), "end": counts(20, seeds)}, seeds)[-1].split(" | ")[-2]
        for seeds in (1, 3)
    ]
    assert ends[0] == ends[1]


def test_other_benchmarks_are_not_counted():
    other = {("other", seed, str(q)): (0, 1) for seed in range(3) for q in range(QUESTIONS)}
    found = {"start": counts(10) | other, "end": counts(30) | other}
    assert table([RAISES], found, 3) == table([RAISES], {"start": counts(10), "end": counts(30)}, 3)


def test_a_seed_is_read_from_a_file_of_its_counts(tmp_path):
    ends = {"start": counts(10), "end": counts(30)}
    files = []
    for seed in range(3):
        of_seed = {label: {"b": {q: n for (_, s, q), n in of.items() if s == seed}} for label, of in ends.items()}
        files.append(tmp_path / f"{seed}.json")
        files[-1].write_text(json.dumps(of_seed))
    assert counts_of(map(read_seed, files)) == ends
