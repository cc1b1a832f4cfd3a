from itertools import combinations
from xml.etree import ElementTree

from ratchet.infra.pages.flow_chart import WIDTH, Box, _laid_out, flow_chart

SVG = "{http://www.w3.org/2000/svg}"


def box(key: str, band: str, lane: str, *parents: str, lines: int = 1) -> Box:
    return Box(key, f"<{key}>", ["x" * 50] * lines, band, lane, parents, f"to/{key}", "a & b", 0.5)


CHART = [
    box("raw", "one", "math"),
    box("raw2", "one", "code", lines=3),
    *(box(f"bench{i}", "one", "math") for i in range(5)),
    box("rules", "one", "math", "raw", "never"),
    box("curated", "one", "math", "raw", "rules"),
    box("curated2", "one", "code", "raw2"),
    box("train", "two", "training", "curated", "curated2", "raw"),
    box("score", "two", "evaluation", "train", "bench1"),
]


def test_boxes_lie_apart_with_parents_above_and_are_links():
    picture = ElementTree.fromstring(flow_chart(CHART, "a chart"))
    assert {a.get("href") for a in picture.iter(f"{SVG}a")} == {f"to/{each.key}" for each in CHART}
    assert "<rules>" in [text.text for text in picture.iter(f"{SVG}text")]
    assert all(len(text.text) <= 32 for text in picture.iter(f"{SVG}text"))
    # raw → rules → curated → train leaves out raw → curated and raw → train
    assert len(list(picture.iter(f"{SVG}path"))) == 7
    depth = {"raw": 0, "raw2": 0, "rules": 1, "curated": 2, "curated2": 1, "train": 3, "score": 4}
    places, _, width, height = _laid_out(CHART, {each.key: depth.get(each.key, 0) for each in CHART}, {})
    at = {each.key: (x, y, each.height) for x, y, each in places}
    assert all(0 <= x <= width - WIDTH and 0 <= y <= height - tall for x, y, tall in at.values())
    for (x, y, tall), (x2, y2, tall2) in combinations(at.values(), 2):
        assert abs(x - x2) >= WIDTH or y + tall <= y2 or y2 + tall2 <= y
    for each in CHART:
        assert all(at[parent][1] + at[parent][2] < at[each.key][1] for parent in each.parents if parent in at)


def test_a_chart_of_nothing_is_an_svg():
    assert ElementTree.fromstring(flow_chart([], "nothing")).get("aria-label") == "nothing"
