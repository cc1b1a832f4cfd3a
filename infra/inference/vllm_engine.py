"""vLLM inside this process: paged attention, continuous batching, prefix caching.

vLLM runs on its own thread, the only one that touches it. So requests of several callers are decoded together, callers
judge responses while vLLM decodes, and an engine that hangs is noticed.
"""

# pyright: reportMissingImports=false
# vLLM is an extra, and is not installed where types are checked.
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ratchet.data_curation.base.protocol import Completion, Request, Sampling, check_tokens, completed
from ratchet.infra.inference.models import check_model, read_generation_config, stop_token_ids
from ratchet.infra.inference.vllm_common import AGAIN, START_S, exchange_fields, require_vllm
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.infra.inference.with_vllm import Vllm

TICK_S = 0.5
"""Seconds between checks of the engine's progress."""
CLOSE_S = 10.0
"""Seconds to wait for an engine that hangs; its thread ends with the process."""
LONGEST_DIRECTORY = 60
"""Most characters of a directory in which vLLM can open a socket under a name of its own; a whole path has at most
107."""
QUEUED = 4
"""Most weights that wait for the engine's thread."""

Weights = Iterable[tuple[str, torch.Tensor]]
"""Names and whole tensors, one at a time, as in the model's checkpoint."""


class VllmEngine:
    """An engine (`data_curation.base.protocol.Engine`) with vLLM's scheduler.

    `batch_size` responses are decoded together. `among_ranks`: this process is a rank of a process group, and each rank
    has its own engine, which can `sleep`; the engines of ranks that share a copy of the model must get the same
    requests. Raises RatchetError if vLLM is missing or cannot serve the model.
    """

    def __init__(
        self,
        model_dir: str,
        dtype: str,
        batch_size: int,
        settings: "Vllm",
        among_ranks: bool = False,
    ) -> None:
        require_vllm()
        self.tokenizer = check_model(model_dir)
        self.stop_ids = stop_token_ids(read_generation_config(model_dir), self.tokenizer)
        self.batch_size, self.timeout_s, self._among_ranks = batch_size, settings.timeout_s, among_ranks
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._streams: list[_Stream] = []
        self._open: dict[str, tuple[_Stream, Request]] = {}
        self._names = map(str, count())
        self._progress = time.monotonic()
        arguments = _arguments(model_dir, dtype, batch_size, settings, among_ranks)
        self._whole = arguments.get("load_format") != "dummy"  # all weights are of one version
        self._llm: Any = None
        self._thread = threading.Thread(target=self._run, name="vllm", daemon=True)
        self._thread.start()
        try:
            self._wait(self._submit(partial(self._start, arguments)), START_S)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join(CLOSE_S)

    # ------------------------------------------------------------------------------------ completions

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion]:
        """Yield one completion per request, as soon as it finishes. `requests` is read on vLLM's thread as slots become
        free. Leaving the iterator aborts open requests. Raises RatchetError for a request that does not fit, and for an
        engine that failed or hangs."""
        return (completion for completion in self.stream(requests, sampling) if completion is not None)

    def stream(self, requests: Iterable[Request], sampling: Sampling) -> Iterator[Completion | None]:
        """Yield completions as `generate` does, and None from time to time while the engine makes progress."""
        stream = _Stream(iter(requests), sampling)
        self._submit(partial(self._streams.append, stream))
        try:
            while True:
                try:
                    item = stream.outbox.get(timeout=TICK_S)
                except queue.Empty:
                    self._check_progress(self.timeout_s)
                    yield None
                    continue
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            if self._thread.is_alive():
                self._submit(partial(self._drop, stream))

    # ---------------------------------------------------------------------------------------- weights

    def load_weights(self, weights: Weights, version: str) -> None:
        """Replace all weights in place; tied ones must come under each name. `weights` is read on the calling thread,
        where its collectives belong."""
        pending: queue.Queue[Any] = queue.Queue(maxsize=QUEUED)
        loading = self._submit(partial(self._reload, version, weights_iterator=_received(iter(pending.get, None))))
        for weight in chain(map(_with_event, weights), [None]):
            while not loading.done():
                try:
                    pending.put(weight, timeout=TICK_S)
                    break
                except queue.Full:
                    self._check_progress(self.timeout_s)
        self._wait(loading, self.timeout_s)

    def load_weights_from(self, directory: str, version: str) -> None:
        self._wait(self._submit(partial(self._reload, version, weights_path=directory)), self.timeout_s)

    def sleep(self) -> None:
        """Free the GPU's memory for the trainer; the weights must be loaded again before sampling. No-op on a CPU."""
        if self.sleeps:
            self._wait(self._submit(self._sleep), self.timeout_s)

    def wake(self, part: str) -> None:
        """Take back the memory of `weights` or `kv_cache`. The trainer's allocator must return its cached memory first,
        or vLLM's runs out."""
        if self.sleeps:
            torch.cuda.empty_cache()
            self._wait(self._submit(lambda: self._llm.wake_up(tags=[part])), self.timeout_s)

    # ------------------------------------------------------------------------------- the caller's side

    def _submit(self, work: Callable[[], Any]) -> Future:
        """Run `work` on vLLM's thread, between two steps."""
        future: Future = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        self._progress = time.monotonic()
        self._inbox.put(run)
        return future

    def _wait(self, future: Future, limit_s: float) -> Any:
        while not future.done():
            try:
                future.exception(timeout=TICK_S)
            except TimeoutError:
                self._check_progress(limit_s)
        return future.result()

    def _check_progress(self, limit_s: float) -> None:
        if not self._thread.is_alive():
            raise RatchetError(f"the vLLM engine was closed. {AGAIN}")
        if time.monotonic() - self._progress > limit_s:
            raise RatchetError(
                f"the vLLM engine hangs: no progress for {limit_s:g} s (training.engine.timeout_s). {AGAIN}"
            )

    # ------------------------------------------------------------------------------ on vLLM's own thread

    def _run(self) -> None:
        while True:
            try:
                work = self._inbox.get(block=not self._streams)
            except queue.Empty:
                self._step()
            else:
                if work is None:
                    break
                work()
            self._progress = time.monotonic()
        if self._llm is not None and not self._among_ranks:  # would also shut down the ranks' process group
            self._llm.llm_engine.engine_core.shutdown()

    def _start(self, arguments: dict[str, Any]) -> None:
        from vllm import LLM

        if not torch.cuda.is_available():
            _forget_shared_memory(arguments["tensor_parallel_size"])
            # For this thread only: compiling two small sampler functions takes half a minute and saves nothing.
            torch._dynamo.config.disable = True
        try:
            self._llm = LLM(**arguments)
        except (ValueError, RuntimeError, OSError) as error:
            raise RatchetError(f"vLLM cannot serve {arguments['model']}: {error}") from error
        self.positions: int = self._llm.model_config.max_model_len
        self.vocabulary: int = self._llm.model_config.get_vocab_size()
        self.shape = exchange_fields(self._llm.model_config.hf_config, self._llm.model_config.dtype)
        self.sleeps: bool = arguments["enable_sleep_mode"]

    def _step(self) -> None:
        try:
            for stream in list(self._streams):
                self._fill(stream)
            if self._open:
                for output in self._llm.llm_engine.step():
                    if output.finished:
                        stream, request = self._open.pop(output.request_id)
                        stream.open.discard(output.request_id)
                        stream.outbox.put(self._completion(request, output.outputs[0]))
        except Exception as error:
            failure = RatchetError(f"vLLM failed while decoding: {error!r}. {AGAIN}")
            failure.__cause__ = error
            for stream in list(self._streams):
                stream.outbox.put(failure)
                self._drop(stream)

    def _fill(self, stream: "_Stream") -> None:
        """Start as many of the stream's requests as there is room for; end the stream when none are left."""
        while len(stream.open) < self.batch_size:
            try:
                request = next(stream.requests, None)
                if request is None:
                    break
                self._begin(request, stream)
            except Exception as error:  # the caller's: bad input, or its iterator failed
                stream.outbox.put(error)
                self._drop(stream)
                return
        if not stream.open:
            stream.outbox.put(None)
            self._streams.remove(stream)

    def _begin(self, request: Request, stream: "_Stream") -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = stream.sampling
        prompt = check_tokens(request, sampling, self.positions)
        if max(prompt) >= self.vocabulary:
            raise RatchetError(
                f"request {request.key}: token {max(prompt)} is not in the model's vocabulary of {self.vocabulary}. "
                "The tokenizer is another model's: check the files beside the weights."
            )
        if not self._whole:
            raise RatchetError(f"vLLM does not have all of its new weights, so it cannot sample. {AGAIN}")
        settings = SamplingParams(
            **vars(sampling), seed=request.seed, stop_token_ids=self.stop_ids, detokenize=False,
            logprobs=0,  # of the sampled token only
            output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip
        name = next(self._names)
        self._llm.llm_engine.add_request(name, {"prompt_token_ids": list(prompt)}, settings)
        self._open[name] = stream, request
        stream.open.add(name)

    def _completion(self, request: Request, output: Any) -> Completion | RatchetError:
        if output.finish_reason not in ("stop", "length"):
            return RatchetError(f"vLLM ended request {request.key} by {output.finish_reason!r}. {AGAIN}")
        ids = list(output.token_ids)
        logprobs = [at[token].logprob for token, at in zip(ids, output.logprobs, strict=True)]
        (weights,) = output.weight_versions  # one span: weights change only between requests
        return completed(request, self.tokenizer, ids, logprobs, output.finish_reason == "stop", weights.version)

    def _drop(self, stream: "_Stream") -> None:
        if stream in self._streams:
            self._streams.remove(stream)
        if stream.open:
            self._llm.llm_engine.abort_request(list(stream.open))
            for name in stream.open:
                del self._open[name]
            stream.open.clear()

    def _sleep(self) -> None:
        # Level 1 would keep the weights in host memory, although they are replaced anyway. Level 2 keeps only the
        # model's buffers (rotary caches) there; waking the weights restores them.
        self._llm.sleep(level=2)
        self._whole = False

    def _reload(self, version: str, **where: Any) -> None:
        """Load new weights, drop the prefix cache, and stamp later completions with `version`."""
        if self._streams:
            raise RatchetError("weights cannot be replaced while vLLM samples: does another run use it?")
        self._whole = False
        try:
            self._llm.collective_rpc("reload_weights", kwargs=where)
        except (ValueError, RuntimeError, KeyError, AssertionError, OSError) as error:
            raise RatchetError(f"vLLM did not take the new weights: {error!r}. {AGAIN}") from error
        if not self._llm.reset_prefix_cache():
            raise RatchetError(f"vLLM did not drop its prefix cache, which was computed with old weights. {AGAIN}")
        self._llm.update_weight_version(version)
        self._whole = True


def _with_event(weight: tuple[str, torch.Tensor]) -> tuple[str, torch.Tensor, Any]:
    """A weight with a CUDA event after the trainer stream's work on it: a gathered weight may still be in transit."""
    event = torch.cuda.current_stream().record_event() if weight[1].is_cuda else None
    return *weight, event


def _received(handed: Iterable[tuple[str, torch.Tensor, Any]]) -> Weights:
    """The weights on vLLM's thread, whose stream waits for each event; their memory is not reused before that stream
    has read it."""
    for name, weight, event in handed:
        if event is not None:
            event.wait()
            weight.record_stream(torch.cuda.current_stream())
        yield name, weight


def _forget_shared_memory(together: int) -> None:
    """Delete vLLM's shared memory: on a CPU, ranks that share a model use it under a fixed name, which a killed run
    leaves behind. A living run keeps the memory that it has opened."""
    group, place = divmod(int(os.environ.get("RANK", 0)), together)
    ranks = "-".join(str(group * together + i) for i in range(together))
    Path(f"/dev/shm/-tp:0-[{ranks}]-cpushm_{place}").unlink(missing_ok=True)


class _Stream:
    """One caller's requests: the remaining ones, the names of the open ones, and the queue for completions."""

    def __init__(self, requests: Iterator[Request], sampling: Sampling) -> None:
        self.requests, self.sampling = requests, sampling
        self.open: set[str] = set()
        self.outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()


def _arguments(
    model_dir: str, dtype: str, batch_size: int, settings: "Vllm", among_ranks: bool
) -> dict[str, Any]:  # fmt: skip
    """Arguments of `vllm.LLM`. Also sets vLLM's environment variables, which it reads when imported."""
    accelerated = torch.cuda.is_available()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # its core on our thread, not in another process
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if len(tempfile.gettempdir()) > LONGEST_DIRECTORY:
        os.environ.setdefault("VLLM_RPC_BASE_PATH", "/tmp")  # of the sockets between GPUs that share a model
    if not accelerated:
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(settings.cpu_cache_gib)
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    arguments: dict[str, Any] = {
        "model": model_dir,
        "dtype": dtype,
        "max_num_seqs": batch_size,
        "max_model_len": -1,  # the model's, or what fits into memory
        "skip_tokenizer_init": True,
        "generation_config": "vllm",  # the model's would change sampling silently
        "logprobs_mode": "processed_logprobs",  # of the distribution sampled from, after temperature
        "enable_prefix_caching": True,
        "use_tqdm_on_load": False,
        "gpu_memory_utilization": settings.memory_share,
        "tensor_parallel_size": settings.tensor_parallel,
        "enforce_eager": not accelerated,
        "enable_sleep_mode": accelerated and among_ranks,
    }
    if not accelerated:
        # A prompt in parts draws one sample too many, which only a GPU's generator of random numbers can take back.
        arguments["enable_chunked_prefill"] = False
    if accelerated and among_ranks:
        # Random weights, until the policy sends all of its own: no rank reads the model from disk for them. A server
        # reads files of weights, which vLLM refuses with this setting.
        arguments["load_format"] = "dummy"
    if among_ranks:
        arguments["distributed_executor_backend"] = "external_launcher"
    return arguments
