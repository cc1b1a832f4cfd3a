"""Where tracking is, and that no password stays in an address."""

import json

import pytest

from ratchet.cli.prefect_server import prefect_elsewhere, server_address
from ratchet.infra.recipe.load import validate_recipe
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError
from tests.infra.misbehaving_server import Server


@pytest.mark.parametrize(
    ("given", "package"),
    [
        ("postgresql://me@host/db", "psycopg2-binary"),
        ("postgresql+psycopg2://me@host/db", "psycopg2-binary"),
        ("postgresql+psycopg://me@host/db", "psycopg"),
        ("mysql://me@host/db", "mysqlclient"),
        ("mysql+pymysql://me@host/db", "pymysql"),
        ("mssql+pyodbc://me@host/db", "pyodbc"),
    ],
)
def test_the_package_that_a_database_needs_is_named(tmp_path, monkeypatch, given, package):
    monkeypatch.setattr("ratchet.infra.settings.find_spec", lambda name: None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    with pytest.raises(RatchetError, match=f"is missing: pip install {package}\\.$"):
        load_settings(tmp_path)
    monkeypatch.setattr("ratchet.infra.settings.find_spec", lambda name: "there")
    assert load_settings(tmp_path).tracking_uri == given


def test_a_password_belongs_into_the_variable_that_prefects_client_reads(monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://me:secret@host:4200/api")
    with pytest.raises(RatchetError, match="PREFECT_API_AUTH_STRING") as raised:
        prefect_elsewhere()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("status", "home", "taken"), [(200, "", True), (200, "other", False), (401, "", False)])
def test_a_prefect_server_of_another_home_is_not_taken(tmp_path, monkeypatch, status, home, taken):
    """As where `ratchet ui` was killed, and another home's has its port since."""
    for name in ("PREFECT_API_URL", "PREFECT_HOME"):
        monkeypatch.delenv(name, raising=False)
    settings = load_settings(tmp_path)
    settings.prefect_home.mkdir()
    with Server(status, json.dumps({"home": home or str(settings.prefect_home)})) as server:
        (settings.prefect_home / "server.json").write_text(json.dumps({"api": server.url}))
        assert server_address(settings) == (server.url if taken else None)
    assert server_address(settings) is None


@pytest.mark.parametrize(
    "given",
    [
        "host:5000",
        "file:///data/mlruns",
        "mlruns",
        "mysql://me:secret@host/db",
        "https://me:secret@host",
        "http://[::1",
    ],
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
