"""Derive one key for a problem of an online judge or a contest, whatever its URL: mirrors, old hosts and new ones. The
judges are those that published sets of problems name."""

import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from ratchet.verifiers.yaml_files import load_yaml

_PLATFORMS = load_yaml(Path(__file__).with_name("urls.yaml"))
_ARCHIVED = re.compile(r"https?://web\.archive\.org/web/[^/]+/(?=https?:)")


def problem_key(url: str | None) -> str | None:
    """The key `platform:problem`, e.g. `codeforces:1520/a`, `leetcode:two-sum`, `aops:2020_aime_i_problems/problem_5`;
    None for other URLs."""
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
    platform = next((name for name, each in _PLATFORMS.items() if re.fullmatch(each["hosts"], host)), "")
    for place in _PLATFORMS[platform]["paths"] if platform else ():
        pattern, _, parameter = place.partition(" ")
        match = re.match(pattern, path, re.IGNORECASE)
        name = match and (query.get(parameter, [""])[0] if parameter else "/".join(match.groups()))
        if name:
            return f"{platform}:{name.strip().replace(' ', '_').lower()}"
    return None
