import pytest

from ratchet.data_curation.urls import problem_key

ADDRESSES = {
    "codeforces:1520/a": [
        "https://codeforces.com/problemset/problem/1520/A",
        "http://www.codeforces.com/contest/1520/problem/A?locale=en",
        "codeforces.com/contest/1520/problem/a/",
        "https://m1.codeforces.com/contest/1520/problem/A",
        "https://mirror.codeforces.com/contest/1520/problem/A",
        "https://codeforces.com/group/MWSDmqGsZm/contest/1520/problem/A",
        "https://web.archive.org/web/2021/https://codeforces.com/contest/1520/problem/A",
    ],
    "codeforces:102001/b": [
        "https://codeforces.com/gym/102001/problem/B",
        "https://codeforces.com/problemset/gymProblem/102001/B",
    ],
    "codeforces:1234/b2": ["https://codeforces.com/contest/1234/problem/B2"],
    "atcoder:abc300_a": [
        "https://atcoder.jp/contests/abc300/tasks/abc300_a",
        "http://atcoder.jp/contests/x/tasks/abc300_a?lang=en",
        "https://abc300.contest.atcoder.jp/tasks/abc300_a",
    ],
    "leetcode:two-sum": [
        "https://leetcode.com/problems/two-sum/",
        "https://leetcode.cn/problems/two-sum/description/",
        "https://leetcode-cn.com/problems/two-sum",
        "https://leetcode.com/contest/weekly-contest-1/problems/two-sum/",
    ],
    "aizu:0001": [
        "http://judge.u-aizu.ac.jp/onlinejudge/description.jsp?id=0001&lang=en",
        "https://onlinejudge.u-aizu.ac.jp/problems/0001",
    ],
    "aizu:alds1_1_a": ["https://onlinejudge.u-aizu.ac.jp/courses/lesson/1/ALDS1/1/ALDS1_1_A"],
    "codechef:flow001": [
        "https://www.codechef.com/problems/FLOW001",
        "https://codechef.com/START01A/problems/FLOW001",
        "https://www.codechef.com/practice/course/basics/IO/problems/FLOW001",
        "https://www.codechef.com/submit/FLOW001",
    ],
    "hackerrank:fizzbuzz": [
        "https://www.hackerrank.com/challenges/fizzbuzz/problem",
        "https://hackerrank.com/contests/w/challenges/fizzbuzz",
    ],
    "kattis:hello": [
        "https://open.kattis.com/problems/hello",
        "https://itu.kattis.com/sessions/ab12/problems/hello",
    ],
    "geeksforgeeks:subarray-sum": [
        "https://practice.geeksforgeeks.org/problems/subarray-sum/1",
        "https://www.geeksforgeeks.org/problems/subarray-sum/",
    ],
    "aops:2020_aime_i_problems/problem_5": [
        "https://artofproblemsolving.com/wiki/index.php/2020_AIME_I_Problems/Problem_5",
        "https://artofproblemsolving.com/wiki/index.php?title=2020_AIME_I_Problems/Problem_5",
        "https://www.artofproblemsolving.com/Wiki/index.php/2020%20AIME%20I%20Problems/Problem%205",
    ],
    "aops:1234567": [
        "https://artofproblemsolving.com/community/c5h1234567p9876543",
        "https://artofproblemsolving.com/community/c6h1234567",
        "http://www.artofproblemsolving.com/Forum/viewtopic.php?f=38&t=1234567",
    ],
}


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
