"""One key for a problem of an online judge or a contest, whatever its URL: mirrors, old hosts and new ones. The judges
are those that published sets of problems name."""

import re
from urllib.parse import parse_qs, unquote, urlsplit

_CODEFORCES = r"(?:(?:m\d|mirror)\.)?codeforces\.(?:com|ml|es)"
_GEEKS = r"(?:practice\.)?geeksforgeeks\.org"
_AIZU = r"(?:onlinejudge|judge)\.u-aizu\.ac\.jp"
_AOPS = r"(?:artofproblemsolving|aops)\.com"
# Platform, host (without www.), and a pattern of the path: its groups, joined by "/", name the problem, or the query
# parameter after the blank does. The first match counts.
_ADDRESSES: tuple[tuple[str, str, str], ...] = (
    ("codeforces", _CODEFORCES, r"/(?:group/\w+/)?(?:contest|gym)/(\d+)/(?:problem|submit)/(\w+)"),
    ("codeforces", _CODEFORCES, r"/problemset/(?:gym)?problem/(\d+)/(\w+)"),
    ("atcoder", r"(?:[\w-]+\.contest\.)?atcoder\.jp", r"(?:/contests/[^/]+)?/tasks/(\w+)"),
    ("leetcode", r"leetcode(?:-cn)?\.c(?:om|n)", r"/(?:contest/[^/]+/)?problems/([\w-]+)"),
    ("codechef", r"codechef\.com", r"/(?:[\w-]+/)*(?:problems|problems-old|submit)/(\w+)"),
    ("hackerrank", r"hackerrank\.com", r"/(?:contests/[^/]+/)?challenges/([\w-]+)"),
    ("kattis", r"(?:[\w-]+\.)?kattis\.com", r"/(?:(?:contests|sessions)/\w+/)?problems/([\w.]+)"),
    ("geeksforgeeks", _GEEKS, r"/problems/([\w-]+)"),
    ("geeksforgeeks", _GEEKS, r"/problem-page\.php pid"),
    ("aizu", _AIZU, r"/problems/(\w+)"),
    ("aizu", _AIZU, r"/courses/(?:[^/]+/)+(\w+)$"),
    ("aizu", _AIZU, r"/onlinejudge/description\.jsp id"),
    ("hackerearth", r"hackerearth\.com", r"/(?:[\w-]+/)*(?:algorithm|problem)/([\w-]+)"),
    ("codewars", r"codewars\.com", r"/kata/(\w+)"),
    ("spoj", r"spoj\.com", r"/problems/(\w+)"),
    ("aops", _AOPS, r"/wiki/index\.php/(.+/problem.\d+)$"),  # not the page with all problems of a contest
    ("aops", _AOPS, r"/community/(?:\w+/)*c\d+_?h(\d+)"),
    ("aops", _AOPS, r"/forum/viewtopic\.php t"),
)
_ARCHIVED = re.compile(r"https?://web\.archive\.org/web/[^/]+/(?=https?:)")


def problem_key(url: str | None) -> str | None:
    """`platform:problem`, e.g. `codeforces:1520/a`, `leetcode:two-sum`, `aops:2020_aime_i_problems/problem_5`; None for
    other URLs."""
    if not url:
        return None
    url = _ARCHIVED.sub("", url.strip())
    try:
        parts = urlsplit(url if "//" in url else f"https://{url}")
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return None
    path, query = unquote(parts.path).rstrip("/"), parse_qs(parts.query)
    path += "".join(f"/{title}" for title in query.get("title", []))  # MediaWiki's other form of URL
    for platform, hosts, place in _ADDRESSES:
        pattern, _, parameter = place.partition(" ")
        match = re.fullmatch(hosts, host) and re.match(pattern, path, re.IGNORECASE)
        name = match and (query.get(parameter, [""])[0] if parameter else "/".join(match.groups()))
        if name:
            return f"{platform}:{name.strip().replace(' ', '_').lower()}"
    return None
