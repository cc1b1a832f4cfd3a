"""Best-of-n by a reward model behind a real HTTP server on loopback."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from ratchet.evaluation.main import main
from ratchet.infra.recipe.evaluation import RewardModel
from tests.evaluation.conftest import first_benchmark


class Classifier:
    """Speaks vLLM's `/classify`: the reward is `probs` of the response's text."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.probs = lambda text: [len(text) / 100]
        self.status = 200
        self.raw: list[bool] = []
        lock, server = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                question, answer = (turn["content"] for turn in body["messages"])
                with lock:
                    server.raw.append(body["use_activation"] is False)
                    server.asked[f"{self.path} {body['model']} {question} {answer}"] += 1
                row = {"index": 0, "label": "LABEL_0", "probs": server.probs(answer), "num_classes": 1}
                reply = {"object": "list", "data": [row]}
                if server.status != 200:
                    reply = {"error": {"message": "maximum context length is 8 tokens"}}
                text = json.dumps(reply).encode()
                self.send_response(server.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def classifier():
    classifier = Classifier()
    yield classifier
    classifier.http.shutdown()
    classifier.http.server_close()


@pytest.fixture
def evaluate(spec, classifier, tmp_path):
    def run(**changes) -> int:
        reward_model = {"model": "rm", "base_url": classifier.url, "concurrency": 4, "patience_s": 0.0, **changes}
        asked = first_benchmark(spec, samples=8)
        asked["evaluation"]["reward_model"] = reward_model
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(asked))
        return main(path)

    return run


def test_each_response_is_scored_once_and_the_best_is_the_answer(evaluate, classifier, tmp_path):
    assert evaluate() == 0
    rows = pq.read_table(tmp_path / "work" / "generations.parquet").to_pandas()
    judged = {
        text for text, reason in zip(rows.text, rows.finish_reason, strict=True) if reason == "stop" and text.strip()
    }
    assert judged and not rows.reward[rows.finish_reason == "length"].notna().any()
    for text, reward in zip(rows.text, rows.reward, strict=True):
        assert reward != reward or reward == len(text.strip()) / 100
    assert set(classifier.asked.values()) == {1} and all(classifier.raw)
    assert {key.split(maxsplit=2)[0] for key in classifier.asked} == {"/classify"}
    points = json.loads((tmp_path / "work" / "scores.json").read_text())["benchmarks"]["small-math"]["best_of_at"]
    right = rows.outcome == "passed"
    assert points["1"]["value"] == pytest.approx(right.groupby(rows.problem_id).mean().mean())
    longest = rows.assign(right=right, reward=rows.reward.fillna(-1)).groupby("problem_id")
    shares = [own.right[own.reward == own.reward.max()].mean() for _, own in longest]
    assert points["8"]["value"] == pytest.approx(sum(shares) / len(shares))

    asked = classifier.asked.total()
    assert evaluate() == 0 and classifier.asked.total() == asked
    assert evaluate(model="other") == 0 and classifier.asked.total() == 2 * asked


@pytest.mark.parametrize("probs", [[0.1, 0.9], [None], "x", []])
def test_a_model_that_gives_no_reward_is_named(evaluate, classifier, capsys, probs):
    classifier.probs = lambda _: probs
    assert evaluate() == 2
    assert "reward_model: http://127.0.0.1" in (said := capsys.readouterr().err) and "run the same command" in said


def test_a_failure_keeps_the_rewards_so_far(evaluate, classifier):
    good = classifier.probs
    classifier.probs = lambda text: good(text) if len(classifier.asked) < 5 else []
    assert evaluate(concurrency=1) == 2
    first = list(classifier.asked)[:4]
    classifier.probs = good
    assert evaluate() == 0
    assert [classifier.asked[key] for key in first] == [1] * 4 and len(classifier.asked) > 5


def test_too_long_responses_have_no_reward(evaluate, classifier, tmp_path):
    classifier.status = 400
    assert evaluate() == 0
    rows = pq.read_table(tmp_path / "work" / "generations.parquet").to_pandas()
    assert rows.reward.isna().all()
    asked = classifier.asked.total()
    assert evaluate() == 0 and classifier.asked.total() == 2 * asked  # the limit may have been raised
    notes = (tmp_path / "work" / "progress.jsonl").read_text()
    assert "too long for rm and have no reward" in notes


def test_nobody_answers(evaluate, classifier, capsys):
    classifier.http.shutdown()
    classifier.http.server_close()
    assert evaluate() == 2 and "gave no reward" in capsys.readouterr().err


def test_a_reward_model_needs_an_address():
    with pytest.raises(ValidationError, match="needs both model and base_url"):
        RewardModel(model="rm")
