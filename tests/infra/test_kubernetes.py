"""The manifests, against the published schemas; the runner, against a `kubectl` of a few lines. No cluster has run
either."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ratchet.infra import kubernetes
from ratchet.infra.kubernetes import manifest

EXAMPLES = Path(__file__).parents[2] / "examples" / "operations"
COMMAND = ["python", "-P", "-m", "ratchet.training.launch", "/shared/home/spec.json", "flow:29400"]


def made(name: str) -> dict[str, Any]:
    return manifest(yaml.safe_load((EXAMPLES / name).read_text()), COMMAND)


def test_the_pods_of_an_indexed_job_meet_at_the_first_of_them():
    job = made("job.yaml")
    pod = job["spec"]["template"]["spec"]
    name, host = job["metadata"]["name"], "{}-0.{}".format(job["metadata"]["name"], pod["subdomain"])
    assert pod["containers"][0]["command"] == [*COMMAND[:-1], f"{host}:29500"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] and len(name) < 53  # with its index a host's name
    assert made("job.yaml") == job  # the same work has the same name


def test_an_indexed_job_is_one_for_kubernetes():
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(made("job.yaml"), "1.33", strict=True)
    wrong = made("job.yaml")
    wrong["spec"]["template"]["spec"]["subDomain"] = "ratchet"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.33", strict=True)


def test_a_train_job_is_one_for_kubeflow():
    """RATCHET_TRAINJOB_CRD: `manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml` of Kubeflow's trainer."""
    file = os.environ.get("RATCHET_TRAINJOB_CRD")
    if not file:
        pytest.skip("RATCHET_TRAINJOB_CRD names no definition of TrainJob")
    (version,) = yaml.safe_load(Path(file).read_text())["spec"]["versions"]
    schema, job = closed(version["schema"]["openAPIV3Schema"]), made("trainjob.yaml")
    assert job["apiVersion"].endswith(version["name"])
    jsonschema.validate(job, schema)
    wrong = made("trainjob.yaml")
    wrong["spec"]["trainer"]["nodes"] = 2
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def closed(schema: Any) -> Any:
    """A server drops fields that it does not know; here they are errors."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {name: closed(inner) for name, inner in schema.items()}
    unknown = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not unknown:
        shut["additionalProperties"] = False
    return shut


def test_the_pods_have_the_settings_of_the_flow_and_not_its_tokens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RATCHET_DOMAINS", "my.domains")
    monkeypatch.setenv("RATCHET_JUDGE_TOKEN", "secret-word")
    for job in (made("job.yaml"), made("trainjob.yaml")):
        assert '{"name": "RATCHET_DOMAINS", "value": "my.domains"}' in json.dumps(job)
        assert "secret-word" not in json.dumps(job)


KUBECTL = """#!{python}
import json, sys
from pathlib import Path
home = Path(__file__).parent
job, answers, log = home / "job.json", home / "answers", home / "log"
verb = sys.argv[1]
with log.open("a") as file:
    print(verb, file=file)
if verb == "create":
    if job.exists():
        sys.exit("AlreadyExists")
    job.write_text(sys.stdin.read())
elif verb == "delete":
    job.unlink(missing_ok=True)
else:
    answer, *rest = answers.read_text().splitlines()
    answers.write_text(chr(10).join(rest))
    if answer == "unreachable":
        sys.exit("no route to host")
    if answer != "gone":
        conditions = [] if answer == "running" else [dict(type=answer, status="True")]
        print(json.dumps(dict(status=dict(conditions=conditions))))
"""


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (["running", "unreachable", "unreachable", "Complete"], 0),
        (["unreachable", "Failed"], 1),
        (["running", "gone"], 1),
    ],
)
def test_a_job_is_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[str], code: int):
    (tmp_path / "kubectl").write_text(KUBECTL.format(python=sys.executable))
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "answers").write_text("\n".join(answers))
    (tmp_path / "job.json").write_text("left by a flow that was killed")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kubernetes, "POLL_S", 0)
    assert kubernetes.run(EXAMPLES / "job.yaml", COMMAND) == code
    assert not (tmp_path / "job.json").exists() and not (tmp_path / "answers").read_text()
    assert (tmp_path / "log").read_text().split() == ["delete", "create", *["get"] * len(answers), "delete"]
