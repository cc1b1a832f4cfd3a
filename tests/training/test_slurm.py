"""A stage as a SLURM job: killed, canceled, preempted, too long, or on a node that fails, it goes on to the same
weights as one that was left alone."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ratchet.infra.launching.group import ON_EACH_NODE, STOP, ProcessGroup
from ratchet.infra.launching.launcher import launcher_of
from ratchet.infra.settings import Settings
from ratchet.verifiers.errors import RatchetError
from tests.training.processes import ENVIRONMENT, RECIPE, ROOT, finish, metrics, specification, weights
from tests.training.slurm_cluster import Cluster, slurm_cluster
from tests.waiting import happens

Flow = Callable[..., "subprocess.Popen[str]"]


def test_a_batch_script_asks_its_group_to_stop_and_waits_for_it(tmp_path):
    """Run by bash as SLURM does."""
    head, work = tmp_path / "head.sh", tmp_path / "work's"
    work.mkdir()
    head.write_text("#!/bin/bash\n#SBATCH --time=1\nset -euo pipefail\nexport PREPARED=7\n")
    wait_for_it = "while not os.path.exists(sys.argv[1]): time.sleep(0.05)"
    program = f"import os, sys, time\n{wait_for_it}\nsys.exit(int(os.environ['PREPARED']))"
    group = ProcessGroup((sys.executable, "-c", program, str(work / STOP)), 1, 2, work, tmp_path / "log")
    launcher = launcher_of(Settings(tmp_path, "", sys.executable, slurm=head))
    script = launcher.script(group)
    assert script.index("--signal") < script.index("--time=1") < script.index("PREPARED=7")
    (work / STOP).touch()  # of an earlier job
    job = subprocess.Popen(["bash", "-c", script])
    assert happens(lambda: not (work / STOP).exists())
    time.sleep(0.3)
    assert job.poll() is None
    job.send_signal(signal.SIGUSR1)
    assert job.wait() == 7
    with pytest.raises(RatchetError, match=r"RATCHET_SLURM is .*No such"):
        launcher_of(Settings(tmp_path, "", sys.executable, slurm=tmp_path / "none")).check(1)


def test_a_group_that_starts_its_machines_itself_is_told_how(tmp_path):
    """As an evaluation does, of which only the sampling is everywhere."""
    program = "import os, sys; open(sys.argv[1], 'a').write(os.environ['RATCHET_LAUNCHER'])"
    argv = (sys.executable, "-c", program, str(tmp_path / "launcher"))
    (tmp_path / "head.sh").write_text("#SBATCH --time=1\n")
    launcher = launcher_of(Settings(tmp_path, "", sys.executable, slurm=tmp_path / "head.sh"))
    script = launcher.script(ProcessGroup(argv, 2, 1, tmp_path, tmp_path / "log", on_one_machine=True))
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 0
    assert (tmp_path / "launcher").read_text() == ON_EACH_NODE


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Of one node, or of as many as a test says."""
    with slurm_cluster(getattr(request, "param", 1)) as running:
        yield running


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    """A stage of half a minute and more."""
    recipe = RECIPE.model_dump(mode="json")
    recipe["training"]["checkpoint_every"] = 15
    recipe["training"]["stages"][0] |= {"steps": 40, "max_difficulty": None, "advanced": {}}
    return recipe


@pytest.fixture(scope="module")
def straight(recipe: dict[str, Any], learnt_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stage, left alone."""
    work = tmp_path_factory.mktemp("straight")
    finish(work, learnt_model, recipe=recipe)
    return work


@pytest.fixture
def flow(cluster: Cluster, recipe: dict[str, Any], learnt_model: Path, tmp_path: Path) -> Iterator[Flow]:
    """Starts the flow of a stage, which submits a job with this head."""
    flows = []

    def start_flow(*head: str, **hardware: int) -> "subprocess.Popen[str]":
        training = recipe["training"]
        changed = {"training": training | {"hardware": training["hardware"] | hardware}}
        spec = specification(tmp_path, learnt_model, recipe=recipe | changed)
        (tmp_path / "flow.json").write_text(json.dumps(spec))
        where = {"RATCHET_HOME": str(tmp_path), "RATCHET_SLURM": str(cluster.head(*head))}
        environment = ENVIRONMENT | cluster.environment | where
        argv = [sys.executable, "-m", "tests.training.one_step", str(tmp_path / "flow.json")]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        flows.append(subprocess.Popen(argv, cwd=ROOT, env=environment, **output))
        return flows[-1]

    yield start_flow
    for each in flows:
        each.kill()


def ended(flow: "subprocess.Popen[str]", seconds: float = 600) -> str:
    """What a flow has said that came to its end."""
    said, _ = flow.communicate(timeout=seconds)
    assert flow.returncode == 0, said
    return said


def under_way(flow: "subprocess.Popen[str]", work: Path) -> None:
    assert happens(lambda: len(metrics(work)) >= 3 or flow.poll() is not None)
    assert flow.poll() is None and flow.stdout, flow.communicate()[0]


@pytest.mark.slow
def test_a_flow_that_was_killed_finds_its_job_again(cluster, flow, straight, tmp_path):
    killed = flow()
    under_way(killed, tmp_path)
    killed.kill()
    killed.wait()
    (job,) = cluster.jobs()
    said = ended(flow())
    assert f"SLURM job {job} is doing this work already" in said
    assert max(cluster.jobs("all"), key=int) == job  # none after it
    assert weights(tmp_path) == weights(straight)

    assert "SLURM" not in ended(flow())  # killed behind the end of its job, a flow has nothing left to submit


@pytest.mark.slow
def test_a_flow_that_is_interrupted_cancels_its_job(cluster, flow, straight, tmp_path):
    interrupted = flow()
    under_way(interrupted, tmp_path)
    interrupted.send_signal(signal.SIGINT)
    interrupted.wait()
    assert happens(lambda: not cluster.jobs())
    ended(flow())
    assert weights(tmp_path) == weights(straight)


@pytest.mark.slow
def test_a_job_whose_node_is_given_to_another_goes_on(cluster, flow, straight, tmp_path):
    """If the partition cancels the jobs it preempts, SLURM does not restart them: the job is submitted again."""
    running = flow("--no-requeue", "--exclusive")
    under_way(running, tmp_path)
    (job,) = cluster.jobs()
    urgent = cluster.ask("sbatch", "--parsable", "--partition=urgent", "--exclusive", "--wrap=sleep 5")
    said = ended(running)
    assert f"SLURM job {job} has ended (preempted)" in said
    assert len(set(re.findall(r"SLURM job (\d+)", said)) - {job, urgent}) == 1
    assert weights(tmp_path) == weights(straight)


@pytest.mark.slow
def test_a_job_at_its_time_limit_saves_a_checkpoint_and_is_submitted_again(cluster, flow, straight, tmp_path):
    """SLURM looks at its clock once a minute, so the test has it send the signal now."""
    running = flow("--time=60")
    under_way(running, tmp_path)
    (job,) = cluster.jobs()
    cluster.ask("scancel", "--batch", "--signal=USR1", job)
    said = ended(running)
    assert f"SLURM job {job} has ended (stopped)" in said
    assert weights(tmp_path) == weights(straight)


@pytest.mark.slow
def test_options_that_slurm_refuses_are_told_before_anything_runs(cluster, tmp_path):
    settings = Settings(tmp_path, "", sys.executable, slurm=cluster.head("--partition=none"))
    with pytest.raises(RatchetError, match=r"SLURM refuses: .*partition"):
        launcher_of(settings).check(1)
    with pytest.raises(RatchetError, match="SLURM refuses"):
        launcher_of(Settings(tmp_path, "", sys.executable, slurm=cluster.head())).check(2)  # nodes that there are not


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [2], indirect=True)
def test_a_job_of_two_nodes_goes_on_after_one_failed(cluster, flow, straight, tmp_path):
    one_core = "taskset --pid 1 $$"  # so that each rank has one thread, as those of the undisturbed stage
    running = flow(one_core, machines=2, processes=1)
    under_way(running, tmp_path)
    (job,) = cluster.jobs("running")
    assert cluster.ask("squeue", "--noheader", "--format=%D %N", "--jobs", job) == "2 n[1-2]"
    cluster.ask("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    assert happens(lambda: cluster.jobs("pending") == [job])
    if "down" in cluster.ask("sinfo", "--noheader", "--Node", "--nodes=n2", "--partition=main", "--format=%T"):
        cluster.ask("scontrol", "update", "nodename=n2", "state=resume")  # else it has returned by itself
    assert happens(lambda: cluster.jobs("running") == [job])
    assert "pending" in ended(running)
    assert weights(tmp_path) == weights(straight)
