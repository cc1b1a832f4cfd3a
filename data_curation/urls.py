"""One name for a contest problem, whatever address it was copied from."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

# host (without www.) → patterns of the path; groups, joined by "/", name the problem on that platform.
_PLATFORMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "codeforces",
        r"(?:m\d\.)?codeforces\.com",
        (
            r"/(?:contest|gym)/(\d+)/problem/(\w+)",
            r"/problemset/problem/(\d+)/(\w+)",
            r"/problemset/gymproblem/(\d+)/(\w+)",
        ),
    ),
    ("atcoder", r"atcoder\.jp", (r"/contests/[^/]+/tasks/(\w+)",)),
    ("leetcode", r"leetcode(?:-cn)?\.c(?:om|n)", (r"/(?:contest/[^/]+/)?problems/([\w-]+)",)),
    ("codechef", r"codechef\.com", (r"/(?:[\w-]+/)?problems(?:-old)?/(\w+)",)),
    ("hackerrank", r"hackerrank\.com", (r"/(?:contests/[^/]+/)?challenges/([\w-]+)",)),
    ("kattis", r"(?:[\w-]+\.)?kattis\.com", (r"/problems/(\w+)",)),
    ("geeksforgeeks", r"(?:practice\.)?geeksforgeeks\.org", (r"/problems/([\w-]+)",)),
    ("aizu", r"onlinejudge\.u-aizu\.ac\.jp", (r"/problems/(\w+)", r"/courses/(?:[^/]+/)+(\w+)$")),
    ("hackerearth", r"hackerearth\.com", (r"/(?:[\w-]+/)*(?:algorithm|problem)/([\w-]+)",)),
    ("codewars", r"codewars\.com", (r"/kata/(\w+)",)),
)


def problem_key(url: str | None) -> str | None:
    """`platform:problem`, e.g. `codeforces:1520/a`, `leetcode:two-sum`; None when the address names no problem of a
    platform known here."""
    if not url:
        return None
    try:
        parts = urlsplit(url.strip() if "//" in url else f"https://{url.strip()}")
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return None
    path = parts.path.rstrip("/")
    for platform, pattern, paths in _PLATFORMS:
        if re.fullmatch(pattern, host):
            found = next((m for p in paths if (m := re.match(p, path))), None)
            return f"{platform}:{'/'.join(found.groups()).lower()}" if found else None
    if host == "judge.u-aizu.ac.jp" and (identity := parse_qs(parts.query).get("id")):
        return f"aizu:{identity[0].lower()}"
    return None
