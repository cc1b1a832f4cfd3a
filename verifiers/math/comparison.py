"""Compare two parsed answers part by part, each scalar by the cheapest evidence."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ratchet.verifiers.math import cases, families, integers, regions
from ratchet.verifiers.math.across_kinds import same_across_kinds
from ratchet.verifiers.math.answer import Answer, with_name
from ratchet.verifiers.math.evaluated import arithmetic_left, is_size, matrices_left
from ratchet.verifiers.math.matching import is_ranking, labels_of, paired, ungrouped
from ratchet.verifiers.math.nodes import ZERO, Node, in_radians, kinds_of, names_of, nodes_of, replaced
from ratchet.verifiers.math.numeric import MOST_WORK, constant_value, proportional, same_value
from ratchet.verifiers.math.quantities import with_letter_unit
from ratchet.verifiers.math.readings import renamed, together
from ratchet.verifiers.math.symbols import is_same_name, is_same_text, is_symbol, with_argument
from ratchet.verifiers.math.units import ARCMINUTE, ARCSECOND, DEGREE, POUND, RADIAN, STERLING, Unit

_GROWTHS = {"O", "o", "\\Theta", "\\Omega"}
"""Symbols of Landau: their argument has no factor."""


@dataclass
class Evidence:
    """The course of a comparison: whether it evaluated anything, found arithmetic that the answer left undone
    (`closed_form`: and may leave undone), and how much work it has left."""

    numeric: bool = False
    unevaluated: bool = False
    closed_form: bool = False
    fixed: frozenset[str] = frozenset()
    """Letters that the question gives, so that they are no arbitrary constants."""
    work: list[int] = field(default_factory=lambda: [MOST_WORK])


def same_answer(reference: Answer, answer: Answer, evidence: Evidence) -> bool | None:
    """True if the two answers are the same; None if that is undecided."""
    if reference.domain and answer.domain and not _same_domain(reference.domain, answer.domain):
        return False
    if reference.kind == answer.kind == "scalar" and reference.words != answer.words == "set" and not reference.domain:
        return False  # {2n: n in Z} is not 2n
    if reference.kind == answer.kind == "scalar" and answer.words != reference.words == "set" and not answer.domain:
        return False
    same = _same_shape(reference, answer, evidence)
    if same is False:
        return (
            families.same_flat(reference, answer)
            or families.same_families(reference, answer)
            or integers.same_residues(reference, answer, families.progressions)
            or _same_renamed(reference, answer, evidence)
        )
    return same


def _same_renamed(reference: Answer, answer: Answer, evidence: Evidence) -> bool | None:
    """`n = 2^j, j \\ge 0` for `n = 2^k, k \\ge 0`: an integer has any name."""
    if not reference.domain or reference.domain == "Z" or not answer.domain:
        return False
    ours, theirs = (names_of(side.stated.node or ZERO) for side in (reference, answer))
    if ours == theirs or not len(ours - theirs) == len(theirs - ours) == 1 or not (ours ^ theirs) <= families.INTEGERS:
        return False
    return same_answer(reference, with_name(answer, *(theirs - ours), *(ours - theirs)), evidence)


def _same_shape(reference: Answer, answer: Answer, evidence: Evidence) -> bool | None:
    if "option" in (reference.kind, answer.kind):
        return _same_option(reference, answer, evidence)
    if "equation" in (reference.kind, answer.kind):
        return _same_equation(reference, answer, evidence)
    if reference.kind in ("matrix", "tuple") and matrices_left(answer) and not evidence.closed_form:
        evidence.unevaluated = True
        return False
    if reference.kind != answer.kind:
        if answer.kind == "collection" and reference.value is not None and _is_spaced(answer, reference):
            return True
        forth = same_across_kinds(reference, answer, lambda one, other: same_answer(one, other, evidence))
        return forth or same_across_kinds(answer, reference, lambda one, other: same_answer(other, one, evidence))
    if reference.kind == "scalar":
        return _same_scalar(reference, answer, evidence)
    if reference.variable and answer.variable and reference.variable != answer.variable:
        return False
    if "integers" in (reference.words, answer.words) and reference.words != answer.words:
        return False  # {k in Z: k > 2} is no interval
    if reference.kind in ("text", "based", "moment"):
        ours, theirs = (side.words.replace(" ", "") for side in (reference, answer))
        return ours == theirs or (" " in reference.words and ours.rstrip("s") == theirs.rstrip("s"))
    if reference.kind == "collection":
        if reference.words != answer.words and not _is_plain(reference):
            conjunction = next((side for side in (reference, answer) if side.words == "and"), None)
            if (reference.words and answer.words) or (conjunction and any(each.variable for each in conjunction.parts)):
                return False  # x < 1 or x > 3, not and
            if "or" in (reference.words, answer.words) and len({*labels_of(reference.parts)}) > 1:
                return False  # x = 2 or y = 3, not both
        if "cases" in (reference.brackets, answer.brackets):
            is_same = _same_cases(reference, answer, evidence)
            return cases.same_function(reference, answer, evidence.work) or is_same if is_same is False else is_same
        return _same_collection(reference, answer, evidence)
    if reference.kind in ("phrase", "chain") and reference.words != answer.words:
        return False
    if reference.kind == "congruence":
        # 12 mod 7 is 5 mod 7; n may be left out, but not renamed.
        (one, modulus), (other, got_modulus) = ([part.value for part in side.parts] for side in (reference, answer))
        if one is not None and other is not None and modulus and modulus == got_modulus:
            return (one - other) % modulus == 0
    if reference.kind == "ratio":
        if any(arithmetic_left(two.node, one.node) for one, two in zip(reference.parts, answer.parts, strict=False)):
            return False
        ours, theirs = ([part.value for part in side.parts if part.value] for side in (reference, answer))
        if 0 < len(ours) == len(reference.parts) == len(answer.parts) == len(theirs):
            return all(ours[0] * two == theirs[0] * one for one, two in zip(ours, theirs, strict=True))
    if reference.brackets != answer.brackets or len(reference.parts) != len(answer.parts):
        return False
    return _all(same_answer(one, other, evidence) for one, other in zip(reference.parts, answer.parts, strict=True))


def _same_domain(one: str, other: str) -> bool:
    """Natural numbers begin with 0 or 1: N says not which. Any number is a real or a complex one."""
    if "N" in (one, other):
        return {one, other} <= {"N", "N0", ">0", ">-1"}
    return one == other or {one, other} == {"N0", ">-1"} or {one, other} <= {"any", "R", "C"}


def _with_domain(answer: Answer) -> Answer:
    """An equation whose value says for which letters it holds."""
    if answer.kind != "equation" or not answer.domain:
        return answer
    return replace(answer, parts=(*answer.parts[:-1], replace(answer.parts[-1], domain=answer.domain)))


def _is_plain(answer: Answer) -> bool:
    """True if a list holds values of one thing only, so that it may have `and` as well as `or`."""
    names = {part.parts[0].text if part.kind == "equation" else "" for part in answer.parts}
    return len(names) == 1 and all(
        part.kind == "scalar"
        or part.brackets == "group"
        or (part.kind == "equation" and not part.words)
        or _is_point(part)
        for part in answer.parts
    )


def _is_point(part: Answer) -> bool:
    return part.kind == "tuple" and part.brackets == "()" and all(each.value is not None for each in part.parts)


def _all(results: Iterable[bool | None]) -> bool | None:
    undecided = False
    for result in results:
        if result is False:
            return False
        undecided |= result is None
    return not undecided or None


def _same_scalar(reference: Answer, answer: Answer, evidence: Evidence) -> bool | None:
    if reference.value is not None and answer.value is None and answer.unit is None:
        answer = with_letter_unit(answer, apart=reference.unit is None)
    elif answer.value is not None and answer.unit is not None and reference.value is None and reference.unit is None:
        reference = with_letter_unit(reference, apart=False)
    if reference.unit == STERLING and answer.unit == POUND and any("pound" in token.text for token in answer.tokens):
        answer = replace(answer, unit=STERLING)
    is_angle = {reference.unit, answer.unit} == {DEGREE, RADIAN}
    if not is_angle and _units_differ(reference, answer):
        return False
    # A rounded reference or an angle may stand for a value that is no rational number: 1.414 for \sqrt{2}, 60° for π/3.
    is_exact = reference.places is None and reference.unit not in (DEGREE, RADIAN)
    if (
        not evidence.closed_form
        and (reference.value is None or is_exact or answer.value is not None)
        and arithmetic_left(answer.node, reference.node)
    ):
        evidence.unevaluated = True
        return False
    if is_size(reference.tokens):
        return reference.text == answer.text
    scale = answer.unit.size / reference.unit.size if reference.unit and answer.unit else Fraction(1)
    if reference.value is not None and answer.value is not None and not is_angle:
        return _same_number(reference, replace(answer, value=answer.value * scale))
    if reference.node is None or answer.node is None:
        return reference.node is answer.node and reference.letters == answer.letters != ""
    if reference.percent != answer.percent:
        return False
    if reference.places is not None and (value := constant_value(answer.node)) is not None:
        evidence.numeric = True
        return _rounds_to(value * scale, reference)
    one, other = _in_radians(reference, answer), _in_radians(answer, reference)
    if ("name", "i") in nodes_of(one) and not names_of(one) and "." in answer.text:  # 0.6-0.8j, as programs print
        other = replaced(other, {("name", "j"): ("name", "i")})
    evidence.numeric = True
    if one[0] == other[0] == "applied" and one[1] == other[1] in _GROWTHS:
        return proportional(one[2], other[2], True, evidence.work)
    if {one, other} & {regions.INFINITY, regions.MINUS_INFINITY}:
        return one == other
    one, other = together(one, other)
    same = same_value(one, other if scale == 1 else ("*", other, ("number", scale)), evidence.work)
    if same is False and scale == 1:
        if any(same_value(one, each, evidence.work) for each in renamed(one, other, evidence.fixed)):
            return True
        is_fixed = not evidence.fixed.isdisjoint(names_of(one) | names_of(other))
        return not is_fixed and families.differ_by_constant(one, other, evidence.work)
    return same


def _units_differ(reference: Answer, answer: Answer) -> bool:
    """A unit may be missing on one side. Nouns match if one includes the other: `marbles` and `red marbles`, not `red
    marbles` and `blue marbles`."""
    one, other = reference.unit, answer.unit
    if one is None or other is None:
        if {one, other} & {ARCMINUTE, ARCSECOND}:  # 42' is no 42
            return True
        if reference.percent != answer.percent and any(unit and not unit.words for unit in (one, other)):
            return True  # 12% is not 12°
        return one is not None and bool(one.words) and reference.tokens[0].upright  # `two lines` is a figure
    ours, theirs = set(one.words), set(other.words)
    return not (ours <= theirs or theirs <= ours) if ours and theirs else one.dimension != other.dimension


def _in_radians(answer: Answer, other: Answer) -> Node:
    """30° is π/6 radians; radians with π need no unit."""
    assert answer.node is not None and other.node is not None
    radians = other.unit == RADIAN or (other.unit is None and "\\pi" in kinds_of(other.node, names=True))
    return in_radians(answer.node) if answer.unit == DEGREE and radians else answer.node


def _same_number(reference: Answer, answer: Answer) -> bool:
    """The reference decides. 50% accepts 50%, 50 and 0.5. A reference without the sign is a number: p% is p/100, and
    only for a share of at most one. A rounded decimal accepts what rounds to it."""
    assert reference.value is not None and answer.value is not None
    if reference.percent == answer.percent:
        return reference.value == answer.value or _rounds_to(answer.value, reference, answer)
    if reference.percent:
        return answer.value in (reference.value, reference.value / 100)
    return abs(reference.value) <= 1 and answer.value == 100 * reference.value


def _rounds_to(value: Fraction, reference: Answer, answer: Answer | None = None) -> bool:
    """True if a value rounds to the rounded reference; a decimal with fewer digits does not."""
    if reference.places is None or reference.value is None:
        return False
    digits = [token.text for token in answer.tokens if not token.isa("-")] if answer else []
    if len(digits) == 1 and len(digits[0].partition(".")[2]) <= reference.places:
        return False
    return abs(value - reference.value) <= Fraction(1, 2 * 10**reference.places)


def _same_option(reference: Answer, answer: Answer, evidence: Evidence) -> bool | None:
    """`B` is `(B)` and `(B) 12`; if both have the text it must agree too. `(B) 12` answers 12."""
    if reference.kind == answer.kind:
        both = reference.parts and answer.parts
        return reference.words == answer.words and (
            not both or same_answer(reference.parts[0], answer.parts[0], evidence)
        )
    option, other = (reference, answer) if reference.kind == "option" else (answer, reference)
    if other.node == ("name", option.words) and other.unit is None:
        return True
    pair = (*option.parts, other) if option is reference else (other, *option.parts)
    return len(pair) == 2 and same_answer(*pair, evidence)


def _is_spaced(answer: Answer, number: Answer) -> bool:
    """True for `12, 345` as 12345: groups of three digits after a comma and a space are more likely one number than a
    list. A reference that is a list stays one."""
    groups = [part.text for part in answer.parts]
    digits = "".join(groups)
    return (
        not answer.brackets
        and number.unit is None
        and all(part.value is not None for part in answer.parts)
        and digits.isdigit()
        and 0 < len(groups[0]) <= 3
        and groups[0][0] != "0"
        and all(len(group) == 3 for group in groups[1:])
        and int(digits) == number.value
    )


def _same_cases(reference: Answer, answer: Answer, evidence: Evidence) -> bool | None:
    """Value and condition, row by row, in any order. One row of the answer may say "otherwise" where the reference has
    a condition: it is what the other rows leave, if those of the reference leave nothing out."""
    if reference.brackets != answer.brackets or len(reference.parts) != len(answer.parts):
        return False
    if cases.variables(reference) != cases.variables(answer):  # 1 if n = 0 is not 1 if w = 0
        return False
    open_rows = [row for row in answer.parts if row.parts[1].words == "otherwise"]
    is_open = len(open_rows) == 1 and not any(row.parts[1].words == "otherwise" for row in reference.parts)
    if is_open and cases.cover_the_line(reference) is False:
        return False

    def same(one: Answer, other: Answer) -> bool | None:
        if is_open and other is open_rows[0]:
            return same_answer(one.parts[0], other.parts[0], evidence)
        return same_answer(one, other, evidence)

    return paired(reference.parts, answer.parts, same)


def _same_collection(one: Answer, other: Answer, evidence: Evidence) -> bool | None:
    """One to one. 1,2,3 is not 1,2,3,3; {5} answers 5, but {1, {5}} is not {1, 5}. In any order, unless only one of the
    two says which value is which (x = 2, y = 3; 5 dimes, 3 nickels), or the reference is ordered."""
    one, other = ungrouped(one, other), ungrouped(other, one)
    reference, answer = one.parts, other.parts
    if len(reference) != len(answer):
        return False

    def same(one: Answer, other: Answer) -> bool | None:
        return (one.kind == "collection") == (other.kind == "collection") and same_answer(one, other, evidence)

    ours, theirs = labels_of(reference), labels_of(answer)
    is_told = max(len(set(ours)), len(set(theirs))) > 1
    is_ordered = one.ordered or is_ranking(reference)
    are_named = all(part.kind == "equation" or part.variable for part in (*reference, *answer))
    if (ours != theirs and not are_named) if is_told else is_ordered:
        return _all(same(one, other) for one, other in zip(reference, answer, strict=True))
    return paired(reference, answer, same)


def _is_one_value(values: list[Answer], evidence: Evidence) -> bool:
    """True if an equation is true: 1500 m = 1.5 km, \\arctan 1 = \\pi/4, x^2 - 1 = (x - 1)(x + 1)."""
    first = values[0]
    if any(value.node is None or value.percent for value in values):
        return False
    units = [value.unit or Unit(()) for value in values]
    if len({(unit.dimension, unit.words) for unit in units}) > 1:
        return False
    scaled = [("*", value.node, ("number", unit.size)) for value, unit in zip(values, units, strict=True)]
    return first.kind == "scalar" and all(same_value(scaled[0], each, evidence.work) for each in scaled[1:])


def _with_remainders(answer: Answer) -> Answer:
    r"""`6 \bmod 5 = 1` with 1 for its left side. Any other answer is unchanged, also one that leaves it to do."""
    if answer.kind != "equation" or "\\mod" not in answer.symbols or answer.parts[-1].kind == "congruence":
        return answer
    return replace(answer, parts=tuple(map(_remainder, answer.parts)))


def _remainder(part: Answer) -> Answer:
    value, modulus = (each.value for each in part.parts) if part.kind == "congruence" else (None, None)
    if part.variable or value is None or not modulus or (value % modulus).denominator > 1:
        return part
    return integers.number(int(value % modulus))


def _same_equation(reference: Answer, answer: Answer, evidence: Evidence) -> bool | None:
    """`x = 5` is 5, but not `y = 5`; `6 = 5` is nothing; two equations are compared by sides, then as curves."""
    if reference.kind != answer.kind:
        reference, answer = _with_remainders(reference), _with_remainders(answer)
        equation, other = (reference, answer) if reference.kind == "equation" else (answer, reference)
        if other.kind == "congruence":
            return False
        if equation.domain:
            equation = _with_domain(equation)
        if other.kind in ("tuple", "collection") and equation.parts[2:]:  # a = b = c = 1
            value = equation.parts[-1]
            if all(map(is_symbol, equation.parts[:-1])):
                equations = (Answer("equation", parts=(name, value)) for name in equation.parts[:-1])
                named = Answer("collection", parts=tuple(equations))
                return same_answer(*((named, other) if equation is reference else (other, named)), evidence)
        name, *values = equation.parts
        if equation.words or (other.variable and not is_same_text(name, other.variable)):  # an inequality; F(1, 2)
            return False
        if not is_symbol(name):
            values = [*equation.parts]
            has_names = any(names_of(value.node) for value in values if value.node)
            if (equation is answer or not has_names) and _is_one_value(values, evidence):
                return any(
                    same_answer(*((v, other) if equation is reference else (other, v)), evidence) for v in values
                )
            computed = [value for value in values[1:] if value.value is not None and value.value == values[-1].value]
            if len(values) > 2 and len(computed) == len(values) - 1 and name.node:  # m + n = 256 + 37 = 293
                return same_answer(values[-1], other, evidence) if equation is answer else False
            numbers = len(values) == 2 and None not in (values[0].value, values[1].value)
            if len(values) == 2 and is_symbol(values[1]):
                values = values[:1]
            elif not numbers or not (_same_number(*values) or _same_number(*reversed(values))):
                return False
            else:  # 3 + 14 = 17 says 17
                values = [value for value in values if not arithmetic_left(value.node, other.node)] or values
        if equation is answer and len(values) > 1:  # E = \\frac12 \\cdot 2 \\cdot 3^2 = 9
            work = Evidence(closed_form=True, fixed=evidence.fixed, work=evidence.work)
            if not _all(same_answer(other, value, work) for value in values[:-1]):
                return False
            values = values[-1:]
        pairs = [(value, other) if equation is reference else (other, value) for value in values]
        return _all(same_answer(one, two, evidence) for one, two in pairs)
    if reference.words != answer.words:
        return False
    answer = with_argument(reference, answer)
    (left, *_, right), (got_left, *_, got_right) = reference.parts, answer.parts
    if not reference.words and is_symbol(left) and is_symbol(got_left):
        same = [same_answer(right, value, evidence) for value in (*reference.parts[1:-1], *answer.parts[1:])]
        is_free = _all(same) is False and reference.domain in ("any", "R") and answer.domain in ("", "any", "R")
        if is_free and right.node and got_right.node and left.node:
            free = names_of(("call", "", *left.node[2:]))
            same = [families.same_parameter(*together(right.node, got_right.node), free, evidence.work)]
        return is_same_name(left, got_left) and _all(same)
    if len(reference.parts) != 2 or len(answer.parts) != 2:
        return reference.text == answer.text
    nodes = [part.node for part in (*reference.parts, *answer.parts) if part.unit is None and not part.percent]
    if len(nodes) == 4 and None not in nodes and not any(names_of(node) for node in nodes if node):
        return nodes[:2] in (nodes[2:], nodes[:1:-1])  # of numbers: what it says, not its truth
    for pair in ((got_left, got_right), (got_right, got_left))[: 1 if reference.words else 2]:
        if _all(same_answer(one, two, evidence) for one, two in zip((left, right), pair, strict=True)):
            return True
    if len(nodes) < 4 or None in nodes:
        return False
    evidence.numeric = True
    one, other = together(("-", nodes[0], nodes[1]), ("-", nodes[2], nodes[3]))
    return proportional(one, other, bool(reference.words), evidence.work)
