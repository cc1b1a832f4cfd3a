import pytest

from data_curation.urls import problem_key


@pytest.mark.parametrize(
    ("key", "urls"),
    [
        (
            "codeforces:1520/a",
            [
                "https://codeforces.com/problemset/problem/1520/A",
                "http://www.codeforces.com/contest/1520/problem/A?locale=en",
                "codeforces.com/contest/1520/problem/a/",
                "https://m1.codeforces.com/contest/1520/problem/A",
            ],
        ),
        ("codeforces:102001/b", ["https://codeforces.com/gym/102001/problem/B"]),
        ("atcoder:abc300_a", ["https://atcoder.jp/contests/abc300/tasks/abc300_a", "http://atcoder.jp/contests/x/tasks/abc300_a?lang=en"]),
        (
            "leetcode:two-sum",
            [
                "https://leetcode.com/problems/two-sum/",
                "https://leetcode.cn/problems/two-sum/description/",
                "https://leetcode-cn.com/problems/two-sum",
                "https://leetcode.com/contest/weekly-contest-1/problems/two-sum/",
            ],
        ),
        (
            "aizu:0001",
            [
                "http://judge.u-aizu.ac.jp/onlinejudge/description.jsp?id=0001&lang=en",
                "https://onlinejudge.u-aizu.ac.jp/problems/0001",
            ],
        ),
        ("aizu:alds1_1_a", ["https://onlinejudge.u-aizu.ac.jp/courses/lesson/1/ALDS1/1/ALDS1_1_A"]),
        ("codechef:flow001", ["https://www.codechef.com/problems/FLOW001", "https://codechef.com/START01A/problems/FLOW001"]),
        ("hackerrank:fizzbuzz", ["https://www.hackerrank.com/challenges/fizzbuzz/problem", "https://hackerrank.com/contests/w/challenges/fizzbuzz"]),
        ("kattis:hello", ["https://open.kattis.com/problems/hello"]),
        ("geeksforgeeks:subarray-sum", ["https://practice.geeksforgeeks.org/problems/subarray-sum/1", "https://www.geeksforgeeks.org/problems/subarray-sum/"]),
    ],
)  # fmt: skip
def test_one_problem_has_one_key(key, urls):
    assert [problem_key(url) for url in urls] == [key] * len(urls)


@pytest.mark.parametrize(
    "url",
    [None, "", "https://math.example.org/p/1", "https://codeforces.com/blog/entry/1", "https://evil-leetcode.com/problems/x",
     "http://[broken/", "leetcode"],
)  # fmt: skip
def test_other_addresses_name_no_problem(url):
    assert problem_key(url) is None
