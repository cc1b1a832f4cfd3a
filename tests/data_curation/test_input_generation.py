import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.data_curation.input_generation import generate_inputs, is_like
from ratchet.infra.problems import CodeTest


def calls(*arguments, **named):
    return [CodeTest(call={"args": list(values), "kwargs": {}}, output=0) for values in arguments]


def values(tests):
    return [test.call["args"] for test in tests]


SORTED = calls([[1, 4, 9], 2], [[2, 3, 5, 8, 13], 1], [[7, 20], 2])


def test_careful_inputs_keep_what_holds_in_every_example():
    made = values(generate_inputs(SORTED, 60, "seed"))
    assert len(made) >= 20 and not any(arguments in values(SORTED) for arguments in made)
    for items, k in made:
        assert items == sorted(set(items)) and 1 <= min(items) <= max(items) <= 20
        assert 2 <= len(items) <= 5 and 1 <= k <= 2 and k <= len(items)
    assert len({json.dumps(arguments) for arguments in made}) == len(made)


def test_the_same_seed_gives_the_same_inputs():
    assert generate_inputs(SORTED, 20, "a") == generate_inputs(SORTED, 20, "a") != generate_inputs(SORTED, 20, "b")


def test_bold_inputs_reach_further_also_to_the_constants_of_the_program():
    few = calls([[]], [[3]], [[5]])
    program = "def f(xs):\n    return len([x for x in xs if x > 40])\n"
    reached = {x for [items] in values(generate_inputs(few, 60, "s", bold=True, program=program)) for x in items}
    assert {40, 41} <= reached and min(reached) >= 1
    assert max(len(items) for [items] in values(generate_inputs(few, 60, "s", bold=True))) > 1
    assert all(x in (3, 4, 5) for [items] in values(generate_inputs(few, 60, "s")) for x in items)


@pytest.mark.parametrize(
    ("examples", "holds"),
    [
        (calls([["ab", "cd"], "ab"], [["x", "yz", "w"], "w"]), lambda words, word: word in words),
        (calls([[[1, 5], [2, 3]]], [[[4, 9], [1, 2], [3, 7]]]), lambda rows: all(a < b for a, b in rows)),
        (calls([[[1, 2], [3, 4]]], [[[5, 6, 7], [8, 9, 10]]]), lambda grid: len({len(row) for row in grid}) == 1),
        (calls(["((()))"], ["()()"]), lambda text: text in ("((()))", "()()")),
        (calls([[1, None, 2, 3]], [[5, 4, None]]), lambda tree: None in (tree[1], tree[2]) and len(tree) in (3, 4)),
        (calls([0.5, True], [0.25, True]), lambda share, flag: 0.25 <= share <= 0.5 and flag is True),
    ],
)  # fmt: skip
def test_what_an_input_is_made_of_stays(examples, holds):
    made = values(generate_inputs(examples, 40, "seed"))
    assert all(holds(*arguments) for arguments in made)


def test_the_layout_of_standard_input_stays():
    examples = [CodeTest(input="3 9\n1 5 8\n", output="1"), CodeTest(input="4 20\n2 6 11 17\n", output="2")]
    made = generate_inputs(examples, 30, "seed")
    assert len(made) >= 20
    for test in made:
        first, second = test.input.splitlines()
        count, limit = map(int, first.split())
        numbers = list(map(int, second.split()))
        assert len(numbers) == count and 9 <= limit <= 20 and numbers == sorted(set(numbers))


def test_checks_other_signatures_and_giant_examples_give_nothing():
    assert generate_inputs([CodeTest(check="def check(candidate): pass")], 9, "s") == []
    assert generate_inputs([*calls([1]), *calls([1, 2])], 9, "s") == []
    assert generate_inputs(calls([[1] * 5000]), 9, "s") == []
    assert len(generate_inputs(calls([json.loads("[" * 400 + "1" + "]" * 400)]), 3, "s")) <= 3


def test_outputs_of_another_kind_are_told():
    assert is_like([1, 2], [[3, 4], [5]]) and is_like("-1\n", ["12\n"]) and is_like(True, [False])
    assert (
        not is_like(None, [3]) and not is_like([], [[1]]) and not is_like("NO\n", ["12\n"]) and not is_like(1, [True])
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just([]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(json_values, json_values), max_size=3), st.lists(st.text(max_size=20), max_size=3), st.booleans()
)
def test_any_examples_will_do(arguments, texts, bold):
    for examples in (calls(*arguments), [CodeTest(input=text, output="") for text in texts], calls([], [])):
        assert len(generate_inputs(examples, 3, "s", bold, "x = 10 ** 400")) <= 3
