"""How outputs and values are compared, by the source's own rule."""

import contextlib
import itertools
import os
import random
import subprocess
from pathlib import Path

import pytest

from ratchet.data_curation.readers import kattis
from ratchet.verifiers.code.comparison import (
    Comparison,
    KattisFlags,
    read_comparison,
    text_difference,
    value_difference,
)

LIVECODEBENCH, LEETCODE = Comparison("livecodebench"), Comparison("leetcode")


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        (b"1 2\n", "1 2", True), (b"1 2 \n3\n\n", "1 2\n3", True), (b"1\r\n2\r\n", "1\n2\n", True), (b"", "\n", True),
        (b"1  2", "1 2", True), (b" 1", "1", True), (b"1\n\n2", "1\n2", True), (b"1 2", "12", False),
        (b"1 2 2", "1 2", False), (b"yes", "YES", False), (b"1.0", "1", False), (b"\xff", "?", False),
        ("é".encode(), "é", True),
    ],
)  # fmt: skip
def test_same_text(written, expected, same):
    assert (text_difference(written, expected) == "") is same


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        (b"j3", 3, True), (b"j3", 3.0, True), (b"j0.30000000000000004", 0.3, True), (b"j0.3001", 0.3, False),
        (b"jNaN", float("nan"), True), (b"j[1, [2]]", [1, [2]], True), (b"j[1, 2]", [2, 1], False),
        (b"j[1, 2]", [1, 2, 3], False), (b'j{"a": 1.0000000001}', {"a": 1.0}, True), (b'j{"a": 1}', {"b": 1}, False),
        (b"jtrue", True, True), (b"jnull", None, True), (b"", None, False), (b"x", None, False),
        (b"r<object>", None, False), (b"r{1, 2}", "{1, 2}", True), (b"jtrue", "true", False),
        (b"j" + b"[" * 100_000, [], False), (b"j" + b"9" * 10_000, 1, False), (b"j" + b"9" * 400, 1.5, False),
    ],
)  # fmt: skip
def test_same_value(written, expected, same):
    assert (value_difference(written, expected) == "") is same


def test_differences_name_their_place():
    assert text_difference(b"1\n2\n3", "1\n5\n3") == "line 2: expected '5', got '2'"
    assert text_difference(b"1", "1\n5") == "expected 2 words, got 1"
    assert value_difference(b'j{"a": [1, 2.5]}', {"a": [1, 2]}) == "['a'][1]: expected '2', got '2.5'"
    assert value_difference(b"j[1]", [1, 2]) == "value: expected 2 items, got 1"


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        ("1.0", "1", True), ("1e3", "1000", True), ("0.10 2", "0.1   2.0", True), ("  5 \n", "5", True),
        ("1\n2", "1 2", False), ("1  2", "1 2", True), ("a  b", "a b", False), ("yes", "YES", False),
        ("0.30000000000000004", "0.3", False), ("5\n\n6", "5\n6", False), ("NaN", "NaN", True), ("NaN", "nan", False),
        ("1_000", "1000", True), ("", "", True), ("50000000000000000", "50000000000000001", False),
        ("sNaN", "1.5", False), ("1.5", "sNaN", False),
    ],
)  # fmt: skip
def test_livecodebench_compares_lines_and_decimals(written, expected, same):
    assert (text_difference(written.encode(), expected, LIVECODEBENCH) == "") is same


def test_a_tolerance_is_absolute_or_relative():
    """As statements say it, and testlib's doubleCompare: within 0.01 of 0.000001 is 0.009. A source that means one of
    the two has a mode of its own, such as Kattis's flags."""
    assert text_difference(b"0.009", "0.000001", Comparison(tolerance=0.01)) == ""
    assert text_difference(b"0.009", "0.000001", Comparison("kattis"), ["float_relative_tolerance", "1e-2"])


@pytest.mark.parametrize(
    ("written", "expected", "same"),
    [
        ("998244353", "998244352", False), ("1e-7", "0", True), ("1.0000001 x", "1 x", True), ("1.1", "1", False),
        ("+5", "5", True), ("-0", "0", True), ("inf", "inf", True), ("inf", "1e400", False), ("1_0", "10", False),
        ("1.0\n2.0", "1.0 2.0", True), ("nan", "1", False), ("1.0000001 y", "1 x", False), ("1.0000001", "1 x", False),
        ("1000000.1\n2", "1000000\n2", True), ("1.00001", "1", False), ("1e400", "1", False), ("1e999", "1e400", False),
        ("998244353.0", "998244352", False), ("9.98244353e8", "998244352", False), ("1.9999999", "2", True),
        ("1" * 200_000 + "x", "1.5", False),  # a matter of days, where digits are read twice
    ],
)  # fmt: skip
def test_a_tolerance_is_for_what_is_no_integer(written, expected, same):
    assert (text_difference(written.encode(), expected, Comparison(tolerance=1e-6)) == "") is same


@pytest.mark.parametrize(
    ("written", "expected", "comparison", "exact", "same"),
    [
        (b"j333333333.33", 333333334, Comparison(), False, False),
        (b"j1.152921504606847e+18", 2**60 - 1, Comparison(), True, False),
        (b"j1.152921504606847e+18", 2**60, Comparison(), True, True),
        (b"j5.0", 5, Comparison(), False, True),
        (b"j0.30000000000000004", 0.3, Comparison(), False, True),
        (b"j0.30000000000000004", 0.3, Comparison(), True, False),
        (b"j0.30000000000000004", 0.3, LIVECODEBENCH, False, False),
        (b"j0.300009", 0.3, LEETCODE, True, True),
        (b"j100000.9", 100000.0, LEETCODE, True, False),
        (b"j100000.9", 100000.0, Comparison(tolerance=1e-5), False, True),
        (b"j1000001", 1000000, Comparison(tolerance=1e-5), False, False),
        (b'n["Decimal", "0.5"]', 0.5, Comparison(), False, True),
        (b'n["Decimal", "0.51"]', 0.5, Comparison(), False, False),
        (b'n["Fraction", 1, 3]', 1 / 3, Comparison(), False, True),
        (b'n["complex", "5.0", "0.0"]', 5, Comparison(), False, True),
        (b'n["complex", "5.0", "1.0"]', 5, Comparison(), False, False),
        (b'n["list", [["plain", 1], ["Decimal", "2"]]]', [1, 2], Comparison(), False, True),
        (b'n["dict", [["a", ["Fraction", 1, 2]]]]', {"a": 0.5}, Comparison(), False, True),
        (b'n["Decimal", "sNaN"]', 1, Comparison(), False, False),
        (b'n["Fraction", 1, 0]', 1, Comparison(), False, False),
        (b'n["Fraction", "1e20000000"]', 1, Comparison(), False, False),
        (b'n["plain"]', 1, Comparison(), False, False),
        (b'n["exec", "1"]', 1, Comparison(), False, False),
        (b'n["Decimal", "' + b"9" * 5000 + b'"]', 1, Comparison(), False, False),
        (b"j0." + b"9" * 5000, 1.0, Comparison(), False, False),
    ],
)
def test_numbers_are_compared_exactly_where_the_source_is_exact(written, expected, comparison, exact, same):
    assert (value_difference(written, expected, comparison, exact) == "") is same


def test_an_integer_may_be_longer_than_python_prints():
    assert not value_difference(b"j" + b"9" * 5000, 10**5000 - 1)
    assert len(value_difference(b"j" + b"9" * 5000, 10**5000 - 2)) < 1000


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ({"comparison": {"mode": "fuzzy"}}, "one of tokens, livecodebench"),
        ({"comparison": {"mode": "kattis", "arguments": "float_tolerance 1"}}, "not a list"),
        ({"comparison": {"mode": "kattis", "arguments": ["float_tolerance"]}}, "no number"),
        ({"comparison": {"mode": "kattis", "arguments": ["sloppy"]}}, "no flag 'sloppy'"),
        ({"tolerance": True}, "its tolerance is 'True'"),
        ({"tolerance": float("nan")}, "its tolerance"),
    ],
)
def test_an_unknown_comparison_says_why(facts, fault):
    with pytest.raises(ValueError, match=fault):
        read_comparison(facts)


def test_a_column_of_the_same_name_is_no_comparison():
    assert read_comparison({"comparison": "by hand"}) == Comparison()


FLAGS = [
    [], ["case_sensitive"], ["space_change_sensitive"], ["float_tolerance", "1e-2"],
    ["float_absolute_tolerance", "0.5"],
    ["float_relative_tolerance", "1e-2"], ["float_tolerance", "0"], ["float_tolerance", "-1"],
    ["float_absolute_tolerance", "1e-3", "float_relative_tolerance", "0.1", "case_sensitive"],
    ["space_change_sensitive", "float_tolerance", "1e-6"], ["float_relative_tolerance", "0x1p-3"],
]  # fmt: skip
WORDS = [
    "0", "1", "-1", "+1", "1.0", "1.00", "01", "0.000001", "0.009", "0.01", "0.99", "1.005", "100", "100.9", "101",
    "1e2", "1.e", "0x1p", "0x1p+", "0x1e", "-1e-",
    "1e+2", "1E2", "1e", "1e+", ".5", "5.", ".", "+.5e1", "-", "-0", "inf", "-inf", "nan", "INF", "infinity", "1e400",
    "-1e400", "1e-400", "0x10", "0X1P4", "0x", "0x.8", "16", "1_000", "1000", "1,5", "1.5.2", "1.5x", "Yes", "yes",
    "YES",
    "YES\0x", "ſ", "é", "É", "998244353", "998244352", "9007199254740993", "9007199254740992",
]  # fmt: skip
KATTIS = [
    ("1.0 2.0", "1.0\n2.0", [], True), ("Yes", "YES", [], True), ("Yes", "YES", ["case_sensitive"], False),
    ("1  2", "1 2", ["space_change_sensitive"], False), ("1 2\n", "1 2", ["space_change_sensitive"], False),
    ("0.009", "0.000001", ["float_relative_tolerance", "1e-2"], False),
    ("0.009", "0.000001", ["float_absolute_tolerance", "1e-2"], True),
    ("inf", "1e400", ["float_tolerance", "1e-6"], False), ("1_000", "1000", ["float_tolerance", "1e-6"], False),
    ("1e3", "1000", ["float_tolerance", "1e-6"], True), ("1e3", "1000", [], False), ("", "", [], True),
    ("a", "", [], False), ("0x" + "1" * 200_000 + "g", "1.5", ["float_tolerance", "1e-6"], False),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected", "flags", "same"), KATTIS)
def test_kattis_flags(written, expected, flags, same):
    assert (text_difference(written.encode(), expected, Comparison("kattis"), flags) == "") is same


@pytest.fixture(scope="module")
def problemtools(tmp_path_factory):
    """RATCHET_PROBLEMTOOLS: a checkout of Kattis's problemtools. It and its default validator, built."""
    if not (checkout := os.environ.get("RATCHET_PROBLEMTOOLS")):
        pytest.skip("RATCHET_PROBLEMTOOLS names no checkout of Kattis's problemtools")
    validator, source = (
        tmp_path_factory.mktemp("kattis") / "validator",
        "support/default_validator/default_validator.cc",
    )
    subprocess.run(["g++", "-O2", "-std=c++17", Path(checkout, source), "-o", validator], check=True)
    return Path(checkout), validator


def says_yes(validator, folder, written, expected, flags):
    """Kattis's validator on one output; None if it gives no verdict."""
    (folder / "in").write_text("")
    (folder / "ans").write_bytes(expected.encode())
    command = [validator, folder / "in", folder / "ans", folder, *flags]
    code = subprocess.run(command, input=written.encode(), capture_output=True).returncode
    return {42: True, 43: False}.get(code)


def ours(written, expected, flags):
    return text_difference(written.encode(), expected, Comparison("kattis", tuple(flags))) == ""


def test_kattis_default_validator_says_the_same(problemtools, tmp_path):
    draw = random.Random(7)
    texts = ["", " ", "\n", *WORDS]
    spaces = [" ", "  ", "\n", "\r\n", "\t", "\v", ""]
    pairs = list(itertools.product(WORDS, WORDS))[:: max(1, len(WORDS) // 9)]
    for _ in range(700):
        words = [draw.choice(texts) for _ in range(draw.randrange(4))]
        one = "".join(word + draw.choice(spaces) for word in words)
        other = "".join(draw.choice([word, word, draw.choice(WORDS)]) + draw.choice(spaces) for word in words)
        pairs.append((one, other))
    outputs = [(*pair, FLAGS[number % len(FLAGS)]) for number, pair in enumerate(pairs)]
    differ = [output for output in outputs if ours(*output) != says_yes(problemtools[1], tmp_path, *output)]
    assert len(pairs) >= 1000 and not differ, differ[:20]


def changed(answer, draw):
    """Outputs like an answer: other case, space, words, digits and notations of numbers, and one word more or less."""
    words = answer.split()
    yield from (answer, "", answer.upper(), answer.lower(), answer.swapcase(), answer.strip(), answer + "\n\n")
    yield from (" " + answer, answer.replace(" ", "  "), answer.replace("\n", "\r\n"), answer.replace("\n", " "))
    yield from (" ".join(words), "\n".join(words), " ".join(words[1:]), " ".join(words[:-1]), answer + " 0")
    for _ in range(6):
        if not words:
            return
        place = draw.randrange(len(words))
        word = words[place]
        kinds = [word[::-1], word + ".0", word + "e0", "+" + word, "0" + word, word[:-1], draw.choice(WORDS)]
        with contextlib.suppress(ValueError):
            value = float(word)
            kinds += [f"{value * (1 + 10 ** -draw.randrange(3, 12)):.15g}", f"{value + 1e-7:.12f}", f"{value:e}"]
        for other in draw.sample(kinds, 3):
            yield " ".join([*words[:place], other, *words[place + 1 :]])


def test_published_packages_are_compared_as_by_kattis(problemtools, tmp_path):
    """RATCHET_KATTIS_PACKAGES: folders with problem packages, apart by colons. Three answers of each package that is
    compared by the default validator."""
    if not (folders := os.environ.get("RATCHET_KATTIS_PACKAGES")):
        pytest.skip("RATCHET_KATTIS_PACKAGES names no problem packages")
    read = itertools.chain.from_iterable(kattis.rows(kattis.packages(Path(folder))) for folder in folders.split(":"))
    rows = [row for row in read if isinstance(row, dict) and "comparison" in row and row["tests"]]
    draw, verdicts, differ = random.Random(7), [], []
    for row in rows:
        tests = [test for test in row["tests"] if len(test["output"]) < 1e5]
        tests.sort(key=lambda test: len(test["output"]))
        chosen = {test["output"]: test for test in (*tests[:1], *tests[len(tests) // 2 :][:1], *tests[-1:])}
        for test in chosen.values():
            flags = [*row["comparison"]["arguments"], *test.get("arguments", [])]
            for written in dict.fromkeys(changed(test["output"], draw)):
                verdicts.append(ours(written, test["output"], flags))
                if verdicts[-1] != says_yes(problemtools[1], tmp_path, written, test["output"], flags):
                    differ.append((row["name"], written[:200], test["output"][:200], flags, verdicts[-1]))
    with_flags = sum(
        bool(row["comparison"]["arguments"]) or any("arguments" in test for test in row["tests"]) for row in rows
    )
    print(f"{len(rows)} packages, {with_flags} with flags, {len({row['name'] for row in rows})} names")
    print(f"{len(verdicts)} outputs, {sum(verdicts)} accepted, {len(differ)} differ")
    assert verdicts and not differ, differ[:20]


def test_kattis_own_tests_of_its_validator_hold(problemtools):
    folders = sorted(Path(problemtools[0], "tests/default_validator_tests").glob("test_*"))
    for folder in folders:
        flags = (folder / "args.txt").read_text().split() if (folder / "args.txt").exists() else []
        code = int((folder / "expected_exit_code.txt").read_text())
        expected = (folder / "judge.ans").read_bytes().decode("latin-1")
        difference = text_difference((folder / "user.out").read_bytes(), expected, Comparison("kattis", tuple(flags)))
        assert (difference == "") == (code == 42), folder.name
    assert len(folders) >= 20


def test_flags_are_those_of_the_validator():
    assert KattisFlags.read(["float_tolerance", "1e-6"]) == KattisFlags(absolute=1e-6, relative=1e-6)
