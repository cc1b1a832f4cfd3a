from pathlib import Path

import pytest
import yaml

from ratchet.data_curation.urls import problem_key

ADDRESSES = yaml.safe_load((Path(__file__).parent / "addresses.yaml").read_text())


@pytest.mark.parametrize("key", ADDRESSES)
def test_one_problem_has_one_key(key):
    assert [problem_key(url) for url in ADDRESSES[key]] == [key] * len(ADDRESSES[key])


@pytest.mark.parametrize(
    "url",
    [None, "", "https://math.example.org/p/1", "https://codeforces.com/blog/entry/1", "https://evil-leetcode.com/problems/x",
     "http://[broken/", "leetcode", "https://poj.org/problem",
     "https://artofproblemsolving.com/community/c5",
     "https://artofproblemsolving.com/wiki/index.php/2020_AIME_I_Problems", "https://vjudge.net/problem/HDU-1000"],
)  # fmt: skip
def test_other_addresses_name_no_problem(url):
    assert problem_key(url) is None
