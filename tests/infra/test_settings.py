"""Where tracking is, and that no password stays in an address."""

import os

import pytest

from ratchet.cli.prefect_server import prefect_elsewhere
from ratchet.infra.recipe.load import validate_recipe
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError


@pytest.mark.parametrize(
    ("given", "kept", "variables"),
    [
        ("http://host:5000", "http://host:5000", {}),
        (
            "https://me:p%40ss@host/mlflow",
            "https://host/mlflow",
            {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "p@ss"},
        ),
        ("postgresql+psycopg2://me:secret@host:5/db", "postgresql+psycopg2://me@host:5/db", {"PGPASSWORD": "secret"}),
        ("postgresql://me@host/db", "postgresql://me@host/db", {}),
    ],
)
def test_a_password_moves_to_the_variable_that_the_client_reads(tmp_path, monkeypatch, given, kept, variables):
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "PGPASSWORD"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    assert load_settings(tmp_path).tracking_uri == kept == os.environ["MLFLOW_TRACKING_URI"]
    assert {name: os.environ[name] for name in variables} == variables


def test_so_does_that_of_prefect(monkeypatch):
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "")
    monkeypatch.setenv("PREFECT_API_URL", "http://me:secret@host:4200/api")
    assert prefect_elsewhere() == "http://host:4200/api" == os.environ["PREFECT_API_URL"]
    assert os.environ["PREFECT_API_AUTH_STRING"] == "me:secret"


@pytest.mark.parametrize(
    "given", ["host:5000", "file:///data/mlruns", "mlruns", "mysql://me:secret@host/db", "http://[::1"]
)
def test_an_address_that_cannot_be_used_is_told_without_its_password(tmp_path, monkeypatch, given):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    with pytest.raises(RatchetError, match="MLFLOW_TRACKING_URI") as raised:
        load_settings(tmp_path)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"base_url": "https://me:secret@host/v1"}, "curation.math.teacher.base_url contains a password"),
        ({"base_url": ["http://a/v1", "http://secret@host/v1"]}, "teacher.base_url.1 contains a password"),
        ({"api_key_env": "sk-secret"}, "curation.math.teacher.api_key_env is the name of an environment variable"),
        ({"api_key_env": ["KEY", "hf_secret"]}, "curation.math.teacher.api_key_env.1 is the name"),
    ],
)
def test_a_recipe_takes_no_password_and_no_key(section, field):
    with pytest.raises(RatchetError, match=field) as raised:
        validate_recipe({"name": "x", "curation": {"math": {"teacher": section}}}, "mine.yaml")
    assert "secret" not in str(raised.value)
