"""The row that all share."""

import json
import sys
import threading

from ratchet.verifiers.problem import Problem


def test_threads_that_read_the_tests_at_once_all_get_them_once():
    text = json.dumps([{"input": str(n), "output": str(n)} for n in range(500)])
    interval, lengths = sys.getswitchinterval(), []
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            problem, together = Problem("p", "code", "?", tests=text), threading.Barrier(4)

            def read(problem=problem, together=together):
                together.wait()
                lengths.append(len(problem.code_tests()))

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            lengths.append(len(problem.code_tests()))
    finally:
        sys.setswitchinterval(interval)
    assert set(lengths) == {500}
