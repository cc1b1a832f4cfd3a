import json

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.settings.curation import LengthFilter
from ratchet.data_curation.teacher.length_filter import filter_by_length

LIMITS = LengthFilter(drop_below_tokens=2000, downsample_below_tokens=4000, downsample_keep=0.5)


def rows(tokens: list[float]):
    facts = {"domain": "math", "prompt": "p"}
    return to_table({**facts, "problem_id": f"{i:016x}", "teacher_tokens": t} for i, t in enumerate(tokens))


def test_the_bands_of_the_paper():
    split = filter_by_length(rows([0, 1999.9, 4000, 32000]), LIMITS, seed=0)
    assert split.kept.column("teacher_tokens").to_pylist() == [4000, 32000]
    assert split.rejected.column("rule").to_pylist() == ["too_short", "too_short"]


def test_the_middle_band_is_thinned_at_the_recipes_rate_and_by_identity_alone():
    many = rows([3000.0] * 2000)
    for share in (0.2, 0.5):
        limits = LIMITS.model_copy(update={"downsample_keep": share})
        split = filter_by_length(many, limits, seed=0)
        assert abs(len(split.kept) - 2000 * share) < 60
        draws = [json.loads(evidence)["draw"] for evidence in split.rejected.column("evidence").to_pylist()]
        assert share <= min(draws) < max(draws) <= 1
    kept = split.kept.column("problem_id").to_pylist()
    part = filter_by_length(many.slice(0, 700), limits, seed=0).kept
    assert part.column("problem_id").to_pylist() == kept[: len(part)]
    assert filter_by_length(many, limits, seed=1).kept.column("problem_id").to_pylist() != kept
