import sys

from ratchet.infra.launching.group import ALLOCATOR, ProcessGroup, environment_of_groups
from ratchet.infra.launching.launcher import launcher_of
from ratchet.infra.launching.run_group import run_group
from ratchet.infra.launching.slurm import Slurm
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
        assert running.wait() == 0
    names = set((tmp_path / "log").read_text().split())
    assert not names & SECRETS and {"HF_HOME", "PATH", "OMP_NUM_THREADS"} <= names


def test_trainers_share_what_is_compiled_and_a_users_allocator_stays(tmp_path, monkeypatch):
    for name in ("VLLM_CACHE_ROOT", *ALLOCATOR):
        monkeypatch.delenv(name, raising=False)
    plain = environment_of_groups(tmp_path)
    assert plain["VLLM_CACHE_ROOT"] == str(tmp_path / "compiled")
    assert plain["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/mine")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512")
    mine = environment_of_groups(tmp_path)
    assert mine["VLLM_CACHE_ROOT"] == "/mine" and "PYTORCH_ALLOC_CONF" not in mine
    assert "VLLM_CACHE_ROOT" in Slurm(Settings(tmp_path, "", sys.executable, slurm=_head(tmp_path))).script(
        ProcessGroup(("true",), 1, 1, tmp_path, tmp_path / "log")
    )


def _head(tmp_path):
    (tmp_path / "head.sh").write_text("#!/bin/bash\n")
    return tmp_path / "head.sh"


FAILS = (
    "print('- Process 1 terminated with the following error:\\nTraceback (most recent call last):\\nValueError: first')"
    "; raise SystemExit(1)"
)
KILLED = "import os; print('step 40', flush=True); os.kill(os.getpid(), 9)"


def test_the_reason_of_a_failure_is_that_of_the_last_attempt(tmp_path):
    def reason(program: str) -> str:
        group = ProcessGroup((sys.executable, "-c", program), 1, 1, tmp_path, tmp_path / "log")
        return run_group(group, launcher_of(Settings(tmp_path, "", sys.executable)), lambda: None, print).reason

    assert reason(FAILS).endswith("ValueError: first")
    assert reason(KILLED).splitlines()[1:] == ["step 40"]
    assert reason("raise SystemExit(3)").splitlines()[1:] == ["(no output)"]
    assert "ValueError: first" in (tmp_path / "log").read_text(), "the log keeps all"
