import sys

from ratchet.infra.launching.group import ProcessGroup
from ratchet.infra.launching.launcher import launcher_of
from ratchet.infra.settings import Settings

PRINT = "import os; print(*sorted(os.environ), sep='\\n')"
SECRETS = {
    "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "PREFECT_API_KEY", "PGPASSWORD",
}  # fmt: skip


def test_trainers_get_the_environment_without_the_credentials_of_services_that_only_the_flow_uses(
    tmp_path, monkeypatch
):
    for name in (*SECRETS, "HF_HOME"):
        monkeypatch.setenv(name, "x")
    group = ProcessGroup((sys.executable, "-c", PRINT), 1, 1, tmp_path, tmp_path / "log")
    with launcher_of(Settings(tmp_path, "", sys.executable)).launch(group, print) as running:
        assert running.wait(60) == 0
    names = set((tmp_path / "log").read_text().split())
    assert not names & SECRETS and {"HF_HOME", "PATH", "OMP_NUM_THREADS"} <= names
