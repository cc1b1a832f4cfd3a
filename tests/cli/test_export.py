"""What leaves the house: repositories as the Hub has them, and their upload."""

from pathlib import Path

import pytest
import yaml

from ratchet.infra.store.artifacts import Artifact, ArtifactStore
from ratchet.verifiers.errors import RatchetError
from tests.cli.hub_server import Hub
from tests.flows.commands import in_process


def made(home: Path, where: str) -> Artifact:
    return list(ArtifactStore(home / "artifacts").all(where))[-1]


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # large files by LFS, which Hub speaks
    with Hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", Hub.TOKEN)
        yield server


def test_a_data_set_is_pushed_with_its_card(finished_home, hub):
    curated = made(finished_home, "problems/math-curated-*")
    said = in_process(
        "export", "hub", curated.ref, "--push", "me/math", "--private", "--license", "mit", "--home", finished_home
    )
    assert f"{hub.url}/datasets/me/math/commit/abc" in said
    assert hub.created == [{"name": "math", "organization": "me", "type": "dataset", "visibility": "private"}]
    files = hub.files["datasets/me/math"]
    assert files["data/train.parquet"] == curated.kept.read_bytes()
    card = files["README.md"].decode()
    assert yaml.safe_load(card.split("---")[1])["license"] == "mit" and "rejected.parquet" not in card
    assert {name for name in files if name.startswith("figures/")} == {
        f"figures/{name}" for name in ("funnel.png", "kept.png")
    }


def test_an_export_for_a_trainer_has_the_card_and_says_how_to_train(finished_home, tmp_path):
    curated = made(finished_home, "problems/math-curated-*")
    arguments = ("--format", "trl", "--output", tmp_path / "data", "--license", "mit", "--home", finished_home)
    in_process("export", "problems", curated.ref, "--validation", curated.ref, *arguments)
    assert {file.name for file in (tmp_path / "data").iterdir()} == {"train.parquet", "validation.parquet", "README.md"}
    readme = (tmp_path / "data" / "README.md").read_text()
    assert yaml.safe_load(readme.split("---")[1])["license"] == "mit"
    assert "ratchet_reward" in readme and "rejected.parquet" not in readme
    card = (curated.path / "card.md").read_text()
    assert card.split("---", 2)[2].strip().splitlines()[0] in readme


def test_a_checkpoint_is_pushed_with_its_scores_and_its_origin(finished_home, hub):
    checkpoint = made(finished_home, "checkpoint/code-32-*")
    in_process("export", "hub", checkpoint.ref, "--push", "me/model", "--home", finished_home)
    files = hub.files["me/model"]
    assert files["model.safetensors"] == (checkpoint.path / "model" / "model.safetensors").read_bytes()
    assert {"config.json", "tokenizer.json"} <= files.keys()
    card = files["README.md"].decode()
    [index] = yaml.safe_load(card.split("---")[1])["model-index"]
    assert {result["dataset"]["name"] for result in index["results"]} == {"mini-math", "mini-code"}
    for message in ("max_response_tokens 24", made(finished_home, "problems/math-curated-*").ref, checkpoint.key):
        assert message in card


@pytest.mark.parametrize(
    ("token", "endpoint", "what", "name", "message"),
    [
        ("hf_wrong", "", "checkpoint/code-32-*", "me/model", "401"),
        ("", "http://127.0.0.1:9", "checkpoint/code-32-*", "me/model", "Connection refused"),
        ("", "", "checkpoint/code-32-*", "not a name/of/any", "Repo id must"),
        ("", "", "evaluation/*", "me/scores", "neither problems nor a checkpoint"),
    ],
)
def test_a_push_that_fails_is_told_in_one_line(finished_home, hub, monkeypatch, token, endpoint, what, name, message):
    monkeypatch.setenv("HF_TOKEN", token or Hub.TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", endpoint or hub.url)
    with pytest.raises(RatchetError) as error:
        in_process("export", "hub", made(finished_home, what).ref, "--push", name, "--home", finished_home)
    assert message in str(error.value) and "\n" not in str(error.value) and Hub.TOKEN not in str(error.value)
