"""`vllm-server` as a recipe's engine: a vLLM server (`vllm_server.py`) beside the trainers, seen from their side."""

import json
import os
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx
from pydantic import Field

from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.engine import EvaluationEngine, Needs, TrainedModel, TrainingEngine, Work
from ratchet.infra.inference.protocol import Completion, Request, Sampling
from ratchet.infra.inference.with_vllm import AGAIN, START_S, Vllm, WithCopy, require_vllm
from ratchet.infra.process_group import last_lines, process_group
from ratchet.infra.section import Where

if TYPE_CHECKING:
    from ratchet.infra.recipe.training import Hardware

TOKEN_VARIABLE = "RATCHET_ENGINE_TOKEN"
CHECK_S = 5.0
"""For a server that should run already to answer while a run is planned."""

CONNECT_S = 10.0
SLACK_S = 15.0
"""What the server gets beyond its own time limit, so that it is the one to say what happened."""
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class ServedVllm(Vllm):
    """vLLM in a process of its own, on GPUs that do not train; an evaluation has it inside all the same."""

    url: Where[str | None] = None
    """A server that runs already (`python -m ratchet.infra.inference.vllm_server`); none means that the trainer starts
    one. Its token is in the environment: RATCHET_ENGINE_TOKEN."""
    devices: Where[tuple[int, ...]] = ()
    """GPUs of a server that the trainer starts; the trainer's own processes use the first `hardware.processes`."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that share one copy of the model."""
    weight_transfer: Where[Literal["disk", "nccl"]] = "disk"
    """How it gets new weights: files on a file system that both see, or vLLM's own weight transfer over NCCL."""

    def check_hardware(self, hardware: "Hardware") -> None:
        if hardware.machines > 1 and self.url is None:
            raise ValueError(
                "several machines need engine.url: a server that the trainer starts answers on its own machine only"
            )

    def check(self, python: str) -> None:
        require_vllm(python)  # also with a server elsewhere: an evaluation has it inside
        if self.url is not None:
            VllmService(self.url, self.token(), 1, CHECK_S).close()

    def token(self) -> str:
        """Of the server at `url`. Raises RatchetError when the environment does not have it."""
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise RatchetError(f"training.engine.url is set, but {TOKEN_VARIABLE} is not: it holds the server's token")
        return token

    def needs(self, work: Work) -> Needs:
        engines = max(1, len(self.devices) // self.tensor_parallel)
        batch = min(work.hardware.rollout_batch * work.ranks, -(-work.responses // engines))
        advice = "raise training.engine.memory_share or training.engine.tensor_parallel."
        room = self._room(work, self.tensor_parallel)
        transfer = "disk" if self.weight_transfer == "disk" else "memory"
        return Needs({}, room, batch, engines, gpus=self.tensor_parallel, more_room=advice, transfer=transfer)

    @contextmanager
    def open_for_training(
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
    ) -> Iterator[TrainingEngine]:
        require_vllm()
        from ratchet.infra.inference.vllm_weights import push_to

        with self._server(policy, hardware, model_dir, work / "vllm") as (url, token):
            service = VllmService(url, token, hardware.rollout_batch, self.timeout_s)
            check_shape(service, policy.model)
            yield WithCopy(service, push_to(service, policy, self, work / "vllm"))

    @contextmanager
    def _server(
        self, policy: TrainedModel, hardware: "Hardware", model_dir: str, work: Path
    ) -> Iterator[tuple[str, str]]:
        """URL and token of the stage's server, on every rank; rank 0 starts it, where the recipe names none."""
        if self.url is not None:
            yield self.url, self.token()
            return
        import torch

        with ExitStack() as stack:
            own: list[Any] = [None]
            if policy.rank == 0:
                batch = hardware.rollout_batch * policy.ranks
                own = [stack.enter_context(own_server(model_dir, hardware.dtype, batch, self, work))]
            torch.distributed.broadcast_object_list(own, src=0)
            yield own[0]

    def open_for_evaluation(self, model_dir: str, dtype: str, batch_size: int, index: int) -> EvaluationEngine:
        return self._alone(model_dir, dtype, batch_size, index, self.tensor_parallel)


class VllmService:
    """Implements `infra.inference.protocol.Engine`, and vLLM's `VLLMWeightSyncClient`, over the server at `url`.

    `batch_size` requests are sent at a time. `version` is stamped on the next weights that vLLM's weight transfer
    brings. Raises RatchetError when the server cannot be reached, refuses, falls silent for `timeout_s`, or dies.
    """

    def __init__(self, url: str, token: str, batch_size: int, timeout_s: float) -> None:
        self.url, self.batch_size, self.version, self._timeout_s = url, batch_size, "", timeout_s
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(timeout_s + SLACK_S, connect=CONNECT_S),
            trust_env=False,
        )
        with self._reporting():
            health = self._checked(self._client.get("/health")).json()
        self.model, self.shape = health["model"], health["shape"]
        self.positions, self.workers = int(health["positions"]), int(health["workers"])

    def close(self) -> None:
        self._client.close()

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield one completion per request as each finishes; `requests` is read a batch at a time. Leaving the iterator
        aborts what is open."""
        pending = iter(requests)
        while batch := list(islice(pending, self.batch_size)):
            yield from self._answer(batch, sampling)

    def _answer(self, batch: list[Request], sampling: Sampling) -> Iterator[Completion]:
        body = {
            "sampling": asdict(sampling),
            "requests": [(request.seed, request.prompt_ids) for request in batch],
        }
        missing = len(batch)
        with self._reporting(), self._client.stream("POST", "/generate", json=body) as reply:
            if reply.is_error:
                reply.read()
            self._checked(reply)
            for line in filter(None, reply.iter_lines()):
                facts = json.loads(line)
                if "failure" in facts:
                    raise RatchetError(facts["failure"])
                missing -= 1
                ids, logprobs = tuple(facts["token_ids"]), tuple(facts["logprobs"])
                yield Completion(**{**facts, "key": batch[facts["key"]].key, "token_ids": ids, "logprobs": logprobs})
        if missing:
            raise RatchetError(f"the vLLM server at {self.url} stopped {missing} responses short. {AGAIN}")

    def load_weights_from(self, directory: str, version: str) -> None:
        """Replace all weights in place by those of the safetensors files in `directory`, as the server sees it."""
        self._post("weights/load", {"directory": directory, "version": version})

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._transfer("init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        self._transfer("start_weight_update")

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._transfer("update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._transfer("finish_weight_update", weight_version or self.version)

    def sleep(self) -> None:
        """Nothing: a server's memory is its own."""

    def wake(self, part: str) -> None:
        """Nothing."""

    def _transfer(self, method: str, *arguments: Any) -> None:
        self._post(f"weights/{method}", {"arguments": arguments})

    def _post(self, path: str, body: dict[str, Any]) -> None:
        with self._reporting():
            self._checked(self._client.post(f"/{path}", json=body))

    def _checked(self, reply: httpx.Response) -> httpx.Response:
        if reply.is_error:
            raise RatchetError(f"the vLLM server at {self.url}: {reply.text[:1000]} ({reply.status_code})")
        return reply

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise RatchetError(f"no vLLM server answers at {self.url} ({error}). Is it running? {AGAIN}") from error
        except httpx.TimeoutException as error:
            raise RatchetError(
                f"the vLLM server at {self.url} hangs: silent for {self._timeout_s:g} s (training.engine.timeout_s). "
                + AGAIN
            ) from error
        except httpx.TransportError as error:
            raise RatchetError(f"the vLLM server at {self.url} died: {error!r}. {AGAIN}") from error


def check_shape(service: VllmService, model: Any) -> None:
    """Raises RatchetError where the server's model cannot take this one's weights, or computes in another type."""
    mine = model_shape(model.config, model.dtype)
    differing = [f"{name} {value} and not {mine[name]}" for name, value in service.shape.items() if value != mine[name]]
    if differing:
        raise RatchetError(
            f"the vLLM server at {service.url} serves another model ({service.model}): {', '.join(differing)}. Start "
            "it with the model that the stage starts from, and with --dtype as training.hardware.dtype."
        )


def model_shape(config: Any, dtype: Any) -> dict[str, Any]:
    """What must be the same of two Hugging Face models for one to take the other's weights and give the same
    probabilities; `dtype` is what they compute in."""
    names = (
        "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "tie_word_embeddings",
    )  # fmt: skip
    return {name: getattr(config, name, None) for name in names} | {"dtype": str(dtype)}


@contextmanager
def own_server(
    model_dir: str, dtype: str, batch_size: int, settings: ServedVllm, work: Path
) -> Iterator[tuple[str, str]]:
    """A server on this machine's loopback for as long as the block runs: its URL and token. It ends with us, however
    we end. Raises RatchetError when it does not come up."""
    ready, log, token = work / "vllm.url", work / "vllm.log", secrets.token_urlsafe(32)
    work.mkdir(parents=True, exist_ok=True)
    ready.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
    environment[TOKEN_VARIABLE] = token
    if settings.devices:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, settings.devices))
    argv = [
        sys.executable, "-P", "-m", "ratchet.infra.inference.vllm_server", model_dir, "--port", "0", "--dtype", dtype,
        "--batch", str(batch_size), "--engine", settings.model_dump_json(), "--ready", str(ready),
    ]  # fmt: skip
    with process_group(argv, log, environment) as process:
        deadline = time.monotonic() + START_S
        while not ready.is_file():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RatchetError(f"the vLLM server did not start; the end of {log}:\n{last_lines(log, 15)}")
            time.sleep(0.1)
        yield ready.read_text(), token
