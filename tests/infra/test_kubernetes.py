"""The manifests, against the published schemas. No cluster: none has run them."""

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

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
