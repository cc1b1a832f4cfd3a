"""Defects of raw math problems: templates of unverifiable, unusable or broken problems as published sets have them,
and look-alikes: sound problems with the words that a careless rule looks for.

Each entry is a template; `{a}` to `{d}` become small numbers, different from one another. A kind has many templates
so that no rule is measured on one sentence.
"""

from collections.abc import Callable
from random import Random

from ratchet.examples.tiny_world import math_problems

# Each is (problem, answer).
PROOFS = (
    ("Prove that the product of any {a} consecutive integers is divisible by {a}.", "proof"),
    ("Show that the sum of the first $n$ odd numbers is $n^2$ for every $n \\geq {a}$.", "proof"),
    ("Let $p > {b}$ be a prime. Prove that $p^2 - 1$ is divisible by 24.", "proof"),
    ("Verify that $n^{a} - n^{b}$ is even for every integer $n$.", "proof"),
    ("Let $x$ and $y$ be positive reals with $x + y = {a}$. Show that $xy \\leq \\frac{{{a}^2}}{{4}}$.", "proof"),
    ("Demonstrate that every square leaves remainder 0 or 1 when it is divided by 4, also for $n > {a}$.", "proof"),
    ("Suppose that $a_1 = {a}$ and $a_{{n+1}} = a_n + {b}$. Prove that the sequence has no upper bound.", "proof"),
    ("In triangle $ABC$ the medians meet in $G$. Prove that $AG$ is twice as long as $GM$, with $M$ on $BC$.", "proof"),
    ("Prove by induction that $1 + 2 + \\cdots + n = \\frac{{n(n+1)}}{{2}}$ holds for all $n > {a}$.", "proof"),
    (
        "Each of {a} points in the plane is coloured. Show that two of them share a colour if {b} colours are used.",  # codespell:ignore  # noqa: E501
        "proof",
    ),
    ("Prove: among any {a} integers there are two whose difference is divisible by {b}.", "proof"),
    ("Give a proof that the square root of {b} added to the square root of {a} exceeds 1.", "proof"),
    ("Let $f$ be increasing with $f({a}) = {b}$. Prove or disprove that $f$ has an inverse.", "proof"),
    ("Assume $k$ divides both {a} and {b}. Show that $k$ also divides their difference.", "proof"),
)
TRUE_FALSE = (
    ("True or false: {a}{b} is a prime number.", "False"),
    ("Is {a}{b}{c} divisible by {d}?", "No"),
    ("Does the equation $x^2 = -{a}$ have a real solution?", "no"),
    ("Determine whether the following is true or false: every multiple of {a} is a multiple of {b}.", "false"),
    ("Can {a} squares of side {b} tile a rectangle with an area of {c}{d}?", "Yes"),
    ("Are there infinitely many multiples of {a}{b} that end in {c}?", "yes"),
    ("State whether this is correct: $\\sqrt{{{a}}} + \\sqrt{{{b}}} > {c}$ for all of these numbers.", "True"),
    ("Tom says the sum of {a} odd numbers is odd. Is he right?", "Yes"),
    ("Do the lines $y = {a}x$ and $y = {a}x + {b}$ ever meet?", "No"),
    ("True or False? The number {a}{b}{c} has more than {d} digits.", "\\text{{False}}"),
)
SUB_QUESTIONS = (
    ("A box holds {a} red and {b} blue balls.\n(a) How many balls are there?\n(b) How many more are blue?", "{a}, {b}"),
    ("(a) Find the sum of {a} and {b}. (b) Find their product. (c) Which of the two is larger?", "see above"),
    ("Let $f(x) = {a}x + {b}$.\n1. Compute $f({c})$.\n2. Solve $f(x) = {d}$ for $x$.", "two values"),
    ("(1) Find the area of a square with side {a}.\n(2) Find the length of its diagonal.", "{a}"),
    (
        "A car drives {a} hours at {b} miles an hour.\n(i) How far does it go?\n(ii) How long does the way back take?",
        "{b}",
    ),
    ("a) Calculate {a} + {b}.\nb) Calculate {c} - {d}.\nc) Compare the two results.", "{a}"),
    ("Ann has {a} coins and Bob {b}. 1) How many have they together? 2) How many must Bob give to Ann?", "{c}"),
    ("Consider the triangle with sides {a}, {b} and {c}.\n(I) Find its perimeter.\n(II) Find its area.", "{d}"),
    ("(i) Write {a}{b} in base {c}. (ii) Write the result in base {d} as well.", "{a}"),
    ("For the sequence {a}, {b}, {c}, ... do the following.\n(a) Give the next term.\n(b) Give the tenth term.", "{d}"),
    ("Let $ABCD$ be a square of side {a}.\n(a) Find its area.\n(b) Find the radius of its inscribed circle.", "{b}"),
    ("1. How many even numbers lie between {a} and {a}{b}?\n2. How many of them are multiples of {c}?", "{d}"),
)
FIGURES = (
    ("In the figure below, find the area of the shaded region.", "{c}"),
    ("Find the area of the triangle shown below.", "{c}"),
    ("The graph of $f$ is shown below. Where does it cross the axis?", "{b}"),
    ("As shown in the diagram, the circles overlap. What is the area of the shaded region?", "{b}"),
    ("![](https://cdn.example.org/{a}{b}{c}.png) How many triangles are there?", "{d}"),
    ("\\includegraphics[width={a}cm]{{angles.png}} Find the measure of the marked angle in degrees.", "{b}{c}"),
    ("Refer to the diagram at right. What is the side of the large square?", "{b}"),
    ("\\includegraphics{{arc{a}{b}.pdf}} Find the length of the arc.", "{b}"),
    ('<img src="fig{a}{b}.jpg"> What is the perimeter of the polygon in the figure?', "{a}"),
    ("How many tiles are in the last row of the picture below?", "{c}"),
    ("Using the figure above, determine the length of segment $PQ$.", "{b}"),
    ("What fraction of the rectangle shown in the figure is shaded?", "{b}"),
    ("![](circle{a}{b}.svg) Find the diameter.", "{c}"),
)
NON_ENGLISH = (
    ("Ein Zug fährt {a} Stunden mit einer Geschwindigkeit von {b} Kilometern pro Stunde. Wie weit fährt er?", "{c}"),
    (
        "Berechne die Summe aller natürlichen Zahlen, die kleiner als {a}{b} und durch {c} teilbar sind.",  # codespell:ignore  # noqa: E501
        "{d}",
    ),
    ("Trouver le nombre de diviseurs positifs de {a}{b} qui sont plus grands que {c}.", "{d}"),
    ("Une boîte contient {a} boules rouges et {b} boules bleues. Combien de boules y a-t-il au total ?", "{c}"),
    ("Calcula el perímetro de un rectángulo cuyos lados miden {a} y {b} centímetros.", "{c}"),
    ("Ana tiene {a} manzanas y le da {b} a su hermano. ¿Cuántas manzanas le quedan a Ana?", "{c}"),
    ("Quanti numeri interi compresi tra {a} e {b}{c} sono divisibili per {d}?", "{a}"),
    ("Determine o menor número inteiro positivo que é múltiplo de {a} e também de {b}.", "{c}"),
    ("Найдите сумму всех целых чисел от {a} до {b}{c}, которые делятся на {d}.", "{a}"),
    ("У Маши было {a} яблок, она съела {b} яблока. Сколько яблок осталось у Маши?", "{c}"),
    ("求所有小于 {a}{b} 且能被 {c} 整除的正整数之和。", "{d}"),
    ("小明有 {a} 个苹果，他给了小红 {b} 个，请问小明还剩下多少个苹果？", "{c}"),
    ("半径が {a} の円と半径が {b} の円があります。面積の差を求めなさい。", "{c}"),
    ("Oblicz pole prostokąta, którego boki mają długości {a} i {b} centymetrów.", "{c}"),
    ("Bir sınıfta {a} kız ve {b} erkek öğrenci vardır. Sınıfta toplam kaç öğrenci vardır?", "{c}"),
    ("Hoeveel gehele getallen tussen {a} en {b}{c} zijn deelbaar door {d} maar niet door zeven?", "{a}"),
)
TOO_BRIEF = (
    ("Compute it!", "{b}"), ("Find $x$.", "{a}"), ("Exercise {a}.{b}", "{c}"), ("Solve for $y$:", "{a}"),
    ("Simplify.", "{a}"), ("See above.", "{c}"), ("Evaluate it.", "{a}"), ("Hence find $k$.", "{a}{b}"),
    ("Same for all others.", "{b}"), ("Answer: ?", "{a}"), ("Find the value.", "{a}"), ("Find the answers.", "{b}"),
)  # fmt: skip
LONG_ANSWERS = (
    ("List the first twelve multiples of {a} in increasing order, all of them.", "multiples"),
    ("Write down each residue that a square can leave when divided by {a}{b}, in the order of the squares.", "squares"),
    ("Expand the product of the factors $(x + k)$ for $k$ from {a} to {b} more than that completely.", "polynomial"),
    ("Describe all points that are at a distance of {a} from a line and at least {b} from another one.", "words"),
    (
        "Give a formula for the number of ways to colour $n$ tiles with {a} colours, no {b} alike in a row.",  # codespell:ignore  # noqa: E501
        "formula",
    ),
)
# Sound problems of other worlds, each used once. No rule may reject them; the majority vote does, because this world's
# teacher cannot read them. The answer is a function of the four digits.
LOOK_ALIKES: tuple[tuple[str, Callable[[int, int, int, int], int]], ...] = (
    ("Find the second coordinate of the point halfway from ({a}, 0) to ({b}, 1{c}{c}) and double it.",
     lambda a, b, c, d: 100 + 11 * c),
    ("A factory improved its output from {a} to {a}{b} units a day. By how many units did it improve?",
     lambda a, b, c, d: 9 * a + b),
    ("If you can figure out {a} puzzles an hour, how many can you do in {b} hours?", lambda a, b, c, d: a * b),
    ("Mara approved {a} plans and disproved {b} claims. How many items did she decide in total?",
     lambda a, b, c, d: a + b),
    ("The number {a}.8 is rounded up and the number {b}.1 is rounded down. What is their sum?",
     lambda a, b, c, d: a + 1 + b),
    ("A choir of {a}0 sings in a hall with 5 rows (2 aisles, 3 doors). How many singers stand in each row?",
     lambda a, b, c, d: 2 * a),
    ("Every picture costs {a} dollars. How many dollars do {b} pictures cost?", lambda a, b, c, d: a * b),
    ("What is the value of $f({a})$ if $f(x) = {b}x + {c}$ for every real number $x$?", lambda a, b, c, d: a * b + c),
    ("Given that $x - {a} = {b}$, what is the value of $x + {c}$ as a whole number?", lambda a, b, c, d: a + b + c),
    ("It is a true story: {a} sailors shared {a}{a} coins evenly. How many coins did each of them get?",
     lambda a, b, c, d: 11),
    ("How many four-figure numbers start with the digit {a} and end with the digit {b}?", lambda a, b, c, d: 100),
    ("Vitamin A is sold in packs of {a}, vitamin B in packs of {b}. How many pills are in one pack of each?",
     lambda a, b, c, d: a + b),
    ("Let $g(x) = x^{a}$. For what positive $x$ is $g(x)$ equal to $x$ itself?", lambda a, b, c, d: 1),
    ("Die A shows 4 and die B shows 3 points. By how much is {a}0 larger than what both show together?",
     lambda a, b, c, d: 10 * a - 7),
    ("A lawyer has {a} witnesses who can prove their alibi and {b} who cannot. How many witnesses are there?",
     lambda a, b, c, d: a + b),
    ("The graph of $y = {a}x + {b}$ meets the $y$-axis. At what height does this happen?", lambda a, b, c, d: b),
    ("Line 1 of a song has {a} words and line 2 has {b} words. What is the total number of words?",
     lambda a, b, c, d: a + b),
    ("A shop shows that it is open for {a} hours on each of {b} days. For how many hours is it open?",
     lambda a, b, c, d: a * b),
    ("In the expression $(a + {a})({b})$, replace $a$ by {c}. What number comes out?", lambda a, b, c, d: (c + a) * b),
    ("Nora says yes {a} times and no {b} times. How often does she speak?", lambda a, b, c, d: a + b),
    ("Solve for $n$: $2^n = 2^{a} \\cdot 2^{b}$.", lambda a, b, c, d: a + b),
    ("How many integers $k$ satisfy (i.e. make true) the inequality $0 < k < {a}{b}$?",
     lambda a, b, c, d: 10 * a + b - 1),
    ("A drawing class of {a} has {b} times as many pencils as members. How many pencils are there?",
     lambda a, b, c, d: a * b),
    ("Point $C$ lies on segment $AB$ with $AC = {a}$ and $CB = {b}$. How long is $AB$?", lambda a, b, c, d: a + b),
)  # fmt: skip

_STEMS = (
    "What is {a}{b} percent of {c}00?",
    "How many multiples of {a} lie between {b} and {c}{d}?",
    "If $x + {a} = {b}{c}$, then what is the value of $x - {d}$?",
    "A rope of {a}{b} metres is cut into pieces of {c} metres. How many whole pieces are there?",  # codespell:ignore
    "Which of these numbers is the largest common divisor of {a}{b} and {c}{d}?",
)
_OPTION_STYLES = (
    ("({})", " "), ("{}.", "\n"), ("{})", "  "), ("({})", "\n"), ("$\\textbf{{({})}}$", " \\qquad "), ("{}:", "\n"),
)  # fmt: skip

TEMPLATES = {
    "proof": PROOFS,
    "true_false": TRUE_FALSE,
    "sub_questions": SUB_QUESTIONS,
    "figure": FIGURES,
    "non_english": NON_ENGLISH,
    "too_brief": TOO_BRIEF,
}


def fill(rng: Random, template: str) -> str:
    """The template with four different digits from 2 to 9."""
    return template.format(**dict(zip("abcd", rng.sample(range(2, 10), 4), strict=True)))


def problem_of_kind(rng: Random, kind: str, number: int) -> tuple[str, str]:
    """(problem, answer) with the defect `kind`; `number` counts within the kind, so that templates take turns."""
    if kind == "multiple_choice":
        return _multiple_choice(rng, number)
    if kind == "long_answer":
        problem, form = LONG_ANSWERS[number % len(LONG_ANSWERS)]
        return fill(rng, problem), _long_answer(rng, form)
    if kind == "look_alike":
        problem, solve = LOOK_ALIKES[number]
        values = rng.sample(range(2, 10), 4)
        return problem.format(**dict(zip("abcd", values, strict=True))), str(solve(*values))
    templates = TEMPLATES[kind]
    problem, answer = templates[number % len(templates)]
    digits = dict(zip("abcd", rng.sample(range(2, 10), 4), strict=True))
    return problem.format(**digits), answer.format(**digits)


def _multiple_choice(rng: Random, number: int) -> tuple[str, str]:
    mark, between = _OPTION_STYLES[number % len(_OPTION_STYLES)]
    if number % 2:
        stem = fill(rng, rng.choice(_STEMS))
    else:
        stem = math_problems.draw_problem(rng, rng.choice(math_problems.LEVELS)).prompt
    letters = "ABCDE"[: rng.choice((4, 5))]
    values = rng.sample(range(10, 100), len(letters))
    options = between.join(f"{mark.format(letter)} {value}" for letter, value in zip(letters, values, strict=True))
    right = rng.randrange(len(letters))
    return f"{stem}\n{options}", letters[right] if rng.random() < 0.7 else str(values[right])


def _long_answer(rng: Random, form: str) -> str:
    numbers = [rng.randint(2, 9) * k for k in range(1, 13)]
    return {
        "multiples": ", ".join(map(str, numbers)),
        "squares": "\\{" + ", ".join(map(str, numbers[:10])) + "\\}",
        "polynomial": " + ".join(f"{k}x^{{{11 - i}}}" for i, k in enumerate(numbers)),
        "words": "all points of two lines that are parallel to the given line, one on each side of it, without the "
        f"open segments of length {numbers[0]} in the middle",
        "formula": f"\\frac{{{numbers[1]}(n+1)^{{3}} - {numbers[2]}(n-1)^{{2}} + {numbers[3]}n}}{{{numbers[4]}}} + "
        f"\\sum_{{k={numbers[0]}}}^{{n}} \\binom{{n+{numbers[5]}}}{{k}} \\left({numbers[6]}^k - 1\\right)",
    }[form]
