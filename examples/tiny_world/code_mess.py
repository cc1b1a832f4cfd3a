"""Defects of raw programming problems, in statements and in tests; and look-alikes, which are sound.

A defective statement is one of this world's tasks with a sentence added, or a foreign statement. `{a}` to `{d}` become
small numbers, different from one another.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from ratchet.examples.tiny_world.code_problems import ENTRY_POINT, CodeProblem, Task, faulty_versions, program
from ratchet.examples.tiny_world.math_mess import fill

SPECIAL_JUDGE = (
    "If there are multiple answers, print any of them.",
    "If there are multiple solutions, you may return any.",
    "If there is more than one such list, output any one of them.",
    "If several answers are possible, any of them will be accepted.",
    "You can return any valid answer.",
    "In case of several solutions, print any.",
    "Any correct answer is accepted by the checker.",
    "If there are many optimal choices, you are allowed to output any of them.",
    "Your answer is considered correct if its absolute or relative error does not exceed 10^-6.",
    "Answers within 10^-{a} of the actual answer will be accepted.",
    "Your answer will be accepted if the relative error is at most 1e-9.",
    "If multiple valid arrangements exist, return any one of them.",
    "It is guaranteed that an answer exists; if there are multiple possible answers, find any.",
)
INTERACTIVE = (
    "This is an interactive problem. You may ask at most {a}{b} queries and must flush the output after each.",
    "Your program interacts with the judge: print '? i j' to compare two elements, and '! x' to give the answer.",
    "Interaction: after printing each query, flush the standard output, or you will get Idleness Limit Exceeded.",
    "This is an interactive task. The hidden list has {a} elements; each question reveals one of them.",
    "You have to guess the list by asking the interactor at most {b} questions of the form '? k'.",
    "Note that this problem is interactive. Do not forget to call flush() after every line that you print.",
)
IMAGES = (
    "![](https://espresso.codeforces.example/{a}{b}c{d}.png) The picture above explains the first example.",
    "<image> The list is drawn as bars; bar {a} is marked.",
    '<img src="https://assets.example.org/uploads/ex{a}.jpg" alt="example"> Use the values in the image.',
    "See the figure below for the order of the operations.\n![order](fig{a}.png)",
    "The operation is shown in the image below.\n[Image]",
    "The grid in the picture below shows which numbers count.\n<img src='grid{b}.svg'/>",
    "The numbers stand on a circle.\n![](circle{a}{b}.png)",
)
NON_ENGLISH = (
    "Напишите функцию solve(xs), которая возвращает сумму всех чисел списка, больших чем {a}.",
    "Дан список целых чисел. Оставьте только чётные числа и верните наибольшее из них или {a}.",
    "编写函数 solve(xs)，保留所有大于 {a} 的数，然后返回它们的最大值，若不存在则返回 {b}。",
    "给定一个整数数组，请返回其中能被 {a} 整除的数的个数。",
    "Escribe una función solve(xs) que elimine los números menores que {a} y devuelva la suma de los demás.",
    "Écrire une fonction solve(xs) qui garde les nombres pairs et renvoie le plus grand ou {a}.",  # codespell:ignore
    "Schreibe eine Funktion solve(xs), die alle Zahlen unter {a} entfernt und die Anzahl der übrigen zurückgibt.",  # codespell:ignore  # noqa: E501
    "Escreva uma função solve(xs) que multiplique cada número por {a} e devolva o menor deles ou {b}.",
    "整数のリストが与えられます。{a} より大きい数だけを残し、その合計を返してください。",
    "Scrivi una funzione solve(xs) che scarta i primi {a} numeri e restituisce la somma di quelli rimasti.",
    "Napisz funkcję solve(xs), która usuwa z listy liczby mniejsze niż {a} i zwraca największą z pozostałych.",
)
TOO_BRIEF = (
    "Sort it.", "Write solve.", "Task {a}.", "Two sum", "Return the list.", "Problem {a}{b}.", "solve(xs) again",
    "As before.", "Count, then return.", "TODO.",
)  # fmt: skip
# Sound sentences that hold the words a careless rule would look for.
LOOK_ALIKES = (
    "Many companies ask for this; any language will do.",
    "The answer always exists and there is only one.",
    "Do not print anything, just return the number.",
    "An error in the list never occurs.",
    "You can use any helper you like.",
    "A picture is worth a thousand words, but this list has at most {a}{b} numbers.",
    "Try to figure out how to do it in one pass.",
    "People who interact with lists every day find this easy.",
    "There may be multiple equal numbers in the list.",
    "Your solution is called with {a}0 lists in any case.",
    "The judge calls your function with lists of at most {b}{c} numbers.",
    "If any number is repeated, treat each copy alike.",
    "Several lists may share one result.",
    "Users may enter the numbers in an order of their own.",
    "The output of your function is compared with the expected one.",
    "It is enough to handle lists that fit into memory.",
    "Return exactly one number, never a list.",
)
PLATFORM_TEMPLATES = (
    (
        "Given the head of a linked list, remove the nodes whose value is {a} and return the new head.",
        "# Definition for singly-linked list.\n# class ListNode:\n#     def __init__(self, val=0, next=None):\n"
        "#         self.val = val\n#         self.next = next\nclass Solution:\n"
        "    def solve(self, head: Optional[ListNode]) -> Optional[ListNode]:\n        ",
    ),
    (
        "Given the root of a binary tree, return the sum of the values at depth {a} or less.",
        "# Definition for a binary tree node.\n# class TreeNode:\n"
        "#     def __init__(self, val=0, left=None, right=None):\n"
        "#         self.val = val\n#         self.left = left\n#         self.right = right\nclass Solution:\n"
        "    def solve(self, root: Optional[TreeNode]) -> int:\n        ",
    ),
    (
        "Merge the sorted linked lists and return the head of the result; skip every value above {a}{b}.",
        "class Solution:\n    def solve(self, lists: List[Optional[ListNode]]) -> Optional[ListNode]:\n        ",
    ),
    (
        "Given a nested list of integers, return the sum of all that lie at depth {a} or deeper.",
        "# This is the interface that allows for creating nested lists.\n# class NestedInteger:\n"
        "#     def isInteger(self) -> bool:\nclass Solution:\n"
        "    def solve(self, nested: List[NestedInteger]) -> int:\n        ",
    ),
    (
        "Clone the connected graph that the node with value {a} belongs to and return the copy of the node.",
        "# Definition for a Node.\n# class Node:\n#     def __init__(self, val=0, neighbors=None):\nclass Solution:\n"
        "    def solve(self, node: 'Node') -> 'Node':\n        ",
    ),
    (
        "Invert the binary tree and return its root; leave subtrees of more than {a} nodes as they are.",
        "class Solution:\n    def solve(self, root: TreeNode) -> TreeNode:\n        ",
    ),
)

STATEMENTS = {"non_english": NON_ENGLISH, "too_brief": TOO_BRIEF}
ADDED_SENTENCES = {
    "special_judge": SPECIAL_JUDGE,
    "interactive": INTERACTIVE,
    "image": IMAGES,
    "look_alike": LOOK_ALIKES,
}


def statement_of_kind(rng: Random, kind: str, number: int, prompt: str) -> str:
    """A statement with the defect `kind`; `number` counts within the kind, so that templates take turns."""
    if kind in STATEMENTS:
        return fill(rng, STATEMENTS[kind][number % len(STATEMENTS[kind])])
    sentences = ADDED_SENTENCES[kind]
    sentence = fill(rng, sentences[number % len(sentences)])
    return f"{sentence} {prompt}" if kind == "interactive" and number % 2 else f"{prompt} {sentence}"


def input_output(tests: Any, wrapped: bool = False) -> str:
    """Tests as APPS and TACO publish those of a function: a JSON string of parallel lists. Some sources wrap each
    result in a list of one."""
    inputs = [[list(xs)] for xs, _ in tests]
    outputs = [[wanted] if wrapped else wanted for _, wanted in tests]
    return json.dumps({"fn_name": ENTRY_POINT, "inputs": inputs, "outputs": outputs})


def wrong_tests(rng: Random, problem: CodeProblem) -> list[tuple[tuple[int, ...], int]]:
    """The problem's tests, one to three of them with a wrong expected output."""
    tests = list(problem.tests)
    for index in rng.sample(range(len(tests)), rng.randint(1, 3)):
        xs, wanted = tests[index]
        tests[index] = (xs, wanted + rng.choice((-2, -1, 1, 2, 10)))
    return tests


def weak_tests(task: Task) -> list[tuple[tuple[int, ...], int]] | None:
    """Four right tests that at most a tenth of the task's faulty versions fail; None where there are no such tests."""
    faulty = faulty_versions(task)
    most = len(faulty) // 10
    shown = {xs: places for xs in _SHORT_LISTS if len(places := _noticed(task, faulty, xs, most)) <= most}
    tests: list[tuple[int, ...]] = []
    noticed: set[int] = set()
    while len(tests) < 4 and len(shown) > len(tests):
        tests.append(min((xs for xs in shown if xs not in tests), key=lambda xs: len(noticed | shown[xs])))
        noticed |= shown[tests[-1]]
    return [(xs, task.run(list(xs))) for xs in tests] if len(tests) == 4 and len(noticed) <= most else None


_SHORT_LISTS: tuple[tuple[int, ...], ...] = (
    (),
    *((x,) for x in range(-9, 10)),
    (0, 0),
    (1, 1),
    (0, 1),
    (7, 8),
    (-3, 5),
    (2, -2),
    (9, 0),
    (-8, -9),
)


def _noticed(task: Task, faulty: list[Callable[[list[int]], Any]], xs: tuple[int, ...], most: int) -> set[int]:
    """The faulty versions with a wrong result for the list; the search stops at `most` + 1 of them."""
    wanted = task.run(list(xs))
    noticed: set[int] = set()
    for number, run in enumerate(faulty):
        if run(list(xs)) != wanted:
            noticed.add(number)
        if len(noticed) > most:
            break
    return noticed


def wrong_golden(task: Task) -> str:
    """A published solution that leaves out the first operation."""
    return program(task.lines()[1:])


_HOSTS = (
    ("https://leetcode.com/problems/{slug}/", "https://leetcode.cn/problems/{slug}/description/"),
    ("https://codeforces.com/problemset/problem/{contest}/{index}", "https://codeforces.com/contest/{contest}/problem/{index}"),
    ("https://atcoder.jp/contests/abc{three}/tasks/abc{three}_{low}",
     "http://www.atcoder.jp/contests/abc{three}/tasks/abc{three}_{low}?lang=en"),
    ("https://www.hackerrank.com/challenges/{slug}/problem", "https://hackerrank.com/challenges/{slug}"),
    ("https://leetcode.com/problems/{slug}", "http://www.leetcode.com/problems/{slug}/solutions/?tab=all"),
)  # fmt: skip


def urls(rng: Random, number: int) -> tuple[str, str]:
    """Two addresses of one problem. `number` makes them unique; neighbors share a contest, not a problem."""
    host = _HOSTS[rng.randrange(len(_HOSTS))]
    words = ("list", "keep", "number", "filter", "odd-even", "largest", "chain", "small")
    names = {
        "slug": f"{rng.choice(words)}-{rng.choice(words)}-{number}",
        "contest": 1000 + number // 5,
        "index": "ABCDE"[number % 5],
        "low": "abcde"[number % 5],
        "three": f"{100 + number // 5:03d}",
    }
    return host[0].format(**names), host[1].format(**names)
