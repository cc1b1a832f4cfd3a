"""Problems with one published check, for tests."""

import json

from ratchet.verifiers.problem import Problem

NODES = """
class ListNode:
    def __init__(self, val=0, next=None):
        self.val, self.next = val, next

def chain(items):
    first = None
    for item in reversed(items):
        first = ListNode(item, first)
    return first

def same(one, other):
    while one and other and one.val == other.val:
        one, other = one.next, other.next
    return one is None and other is None
"""


def checked(*statements, prelude=None, entry_point="f", before=""):
    check = f"{before}\ndef check(candidate):\n" + "\n".join(
        "    " + line for s in statements for line in s.split("\n")
    )
    metadata = json.dumps({"prelude": prelude})
    tests = json.dumps([{"check": check}])
    return Problem("p", "code", "", tests=tests, entry_point=entry_point, metadata=metadata, time_limit_s=1.0)
