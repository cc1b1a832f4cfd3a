"""Stands in for CUDA and NCCL in processes without a GPU, with CPU tensors and gloo beneath.

`install` makes torch.cuda answer as on a machine with GPUs. Within `with Devices():` every tensor has a device of its
own, which is noted on its storage: `.to("cuda:1")` copies it there, `.device` says so. Refused, with the words of CUDA
or NCCL where they have any:

- work on tensors of two devices, and a CUDA tensor read as numpy;
- a collective or a group before this process has chosen a device;
- a collective on a tensor of another device than the group's;
- collectives of a group, or creations of groups, in another order than on another rank: of its `n`th call each rank
  compares name, shape and type with the rank that came there first. At the end the numbers of calls are compared.

Every event is a line of `<traces>/<rank>.jsonl`, of which `disagreement` compares the order across groups. Not seen:
tensors on other threads. Those made within C++, such as gradients, count as on the current device. Kernels, memory,
speed and streams that overlap are not imitated.
"""

import functools
import inspect
import json
import os
from collections import Counter
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

COLLECTIVES = (
    "all_reduce", "broadcast", "all_gather", "all_gather_single", "reduce_scatter", "reduce_scatter_single",
    "all_to_all", "all_to_all_single", "reduce", "gather", "scatter", "barrier",
)  # fmt: skip
MIXED = {"copy_", "__getitem__", "__setitem__", "index_put_", "to", "type", "cpu", "cuda", "__set__", "set_"}
MIXED |= {"_has_compatible_shallow_copy_type"}
"""Functions that take tensors of several devices."""
NO_OPS = (
    "synchronize", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_cached", "manual_seed",
    "manual_seed_all", "_lazy_init", "init", "ipc_collect", "set_rng_state",
)  # fmt: skip
ZEROS = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached")


class State:
    """Of this process."""

    current: int | None = None
    bound: int | None = None
    """The GPU of the process group."""
    calls: Counter[str] = Counter()
    groups: dict[Any, str] = {}
    directory: Path | None = None
    """Of the traces."""
    in_barrier = False


def note(kind: str, *facts: Any) -> None:
    if State.directory is None:
        return
    with open(State.directory / f"{os.environ.get('RANK', 'alone')}.jsonl", "a") as file:
        file.write(json.dumps([kind, *facts], default=str) + "\n")


def refuse(message: str, kind: type[Exception] = RuntimeError) -> None:
    note("refused", message)
    raise kind(message)


# ------------------------------------------------------------------------------------------- devices


def place(tensor: torch.Tensor) -> str:
    """`cpu`, `meta` or `cuda:N`."""
    return getattr(_storage(tensor), "place", None) or f"cuda:{State.current or 0}"


def _storage(tensor: torch.Tensor) -> Any:
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()


def _name(device: Any) -> str:
    """Of a device as torch's functions take it; `meta` is itself."""
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    return str(device) if device.index is not None or device.type != "cuda" else f"{device}:{State.current or 0}"


def _is_cuda(value: Any) -> bool:
    return (isinstance(value, torch.device) and value.type == "cuda") or (
        isinstance(value, str) and value.startswith("cuda")
    )


class Devices(TorchFunctionMode):
    """Every tensor of this thread has a device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if func is torch.device:
            return func(*args, **kwargs)
        if name == "__get__" and (special := self._property(func, args[0])) is not None:
            return special
        if name == "type" and len(args) == 1 and not kwargs:
            kind = func(*args)
            return kind.replace("torch.", "torch.cuda.") if place(args[0]) != "cpu" else kind
        if name == "numpy" and place(args[0]) != "cpu":
            refuse(f"can't convert {place(args[0])} device type tensor to numpy", TypeError)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        places = {place(tensor) for tensor in tensors if tensor.dim()} - {"meta"}
        if len(places) > 1 and name not in MIXED:
            refuse(f"Expected all tensors to be on the same device, but found {sorted(places)} ({name})")
        target = self._target(name, args, kwargs)
        if target is None:
            target = next(iter(places)) if places else place(tensors[0]) if tensors else "cpu"
        real = [torch.device("cpu") if name == "to" and _is_cuda(value) else value for value in args]
        of_cpu = {key: "cpu" if _is_cuda(value) else value for key, value in kwargs.items()}
        if isinstance(kwargs.get("device"), int) and name != "cuda":
            of_cpu["device"] = "cpu"
        if name == "cuda":
            real, of_cpu = args[:1], {}
        result = func(*real, **of_cpu)
        moved = name in ("to", "cpu", "cuda", "type")

        def placed(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if moved and getattr(_storage(value), "place", target) != target:
                value = func(*real, **of_cpu).clone()
            storage = _storage(value)
            if getattr(storage, "place", None) is None:
                storage.place = target
            return value

        return tree_map(placed, result)

    @staticmethod
    def _property(func: Any, tensor: torch.Tensor) -> Any:
        of = getattr(func, "__self__", None)
        if of is torch.Tensor.device:
            return torch.device(place(tensor))
        return place(tensor).startswith("cuda") if of is torch.Tensor.is_cuda else None

    @staticmethod
    def _target(name: str, args: Any, kwargs: Any) -> str | None:
        if name == "cpu":
            return "cpu"
        if name == "cuda":
            return _name(args[1] if len(args) > 1 and args[1] is not None else kwargs.get("device") or "cuda")
        if kwargs.get("device") is not None:
            return _name(kwargs["device"])
        if name == "to":
            for value in args[1:]:
                if isinstance(value, str | torch.device):
                    return _name(value)
                if isinstance(value, torch.Tensor):
                    return place(value)
        return None


# ------------------------------------------------------------------------------------ streams, torch.cuda


class Idle:
    """A stream or an event: whatever it is asked for, it has done."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self


def _set_device(device: Any) -> None:
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.index is not None and device.index >= torch.cuda.device_count():
        refuse("CUDA error: invalid device ordinal")
    State.current = device.index or 0
    note("set_device", State.current)


def _properties(device: Any = None) -> Any:
    return SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", total_memory=int(79.2 * 2**30), major=9, minor=0, multi_processor_count=132
    )


def install(gpus: int) -> None:
    """Before anything imports DeepSpeed, which looks once for an accelerator."""
    os.environ["DS_ACCELERATOR"] = "cuda"
    cuda, stream = torch.cuda, Idle()
    for name in NO_OPS:
        setattr(cuda, name, lambda *args, **kwargs: None)
    for name in ZEROS:
        setattr(cuda, name, lambda *args, **kwargs: 0)
    cuda.is_available = cuda.is_initialized = cuda.is_bf16_supported = lambda *args, **kwargs: True
    cuda.is_current_stream_capturing = lambda: False
    cuda.device_count, cuda.current_device, cuda.set_device = lambda: gpus, lambda: State.current or 0, _set_device
    cuda.Stream, cuda.Event, cuda.stream = Idle, Idle, nullcontext
    cuda.current_stream = cuda.default_stream = lambda device=None: stream
    cuda.get_device_properties, cuda.get_device_name = _properties, lambda device=None: _properties().name
    cuda.get_device_capability, cuda.get_rng_state = lambda device=None: (9, 0), lambda *args: torch.get_rng_state()
    cuda.mem_get_info = lambda device=None: (_properties().total_memory, _properties().total_memory)
    cuda.nvtx.range_push = cuda.nvtx.range_pop = lambda *args: None
    torch.Tensor.record_stream = lambda tensor, stream: None
    torch.Tensor.pin_memory = lambda tensor, *args: tensor
    run_backward = torch.autograd._engine_run_backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        with Devices():  # torch leaves the mode for a function that the mode has seen
            return run_backward(*args, **kwargs)

    torch.autograd._engine_run_backward = backward
    _install_collectives()


# --------------------------------------------------------------------------------------- process groups


def _install_collectives() -> None:
    c10d, distributed = distributed_c10d, torch.distributed

    def replace(name: str, function: Any) -> None:
        wrapped = functools.wraps(getattr(c10d, name))(function)
        setattr(c10d, name, wrapped)
        setattr(distributed, name, wrapped)

    start, create, leave = c10d.init_process_group, c10d.new_group, c10d.destroy_process_group
    object_device = c10d._get_object_coll_device
    c10d._get_object_coll_device = lambda group=None: object_device(group) if State.in_barrier else "cuda"

    def init_process_group(backend: Any = None, *args: Any, device_id: Any = None, **kwargs: Any) -> None:
        if State.current is None:
            refuse("a process group is made before this rank has chosen a device")
        State.bound = State.current if device_id is None else device_id.index
        note("init_process_group", backend, State.bound)
        start("gloo", *args, **kwargs)

    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        _in_order("world", f"new_group {list(ranks) if ranks is not None else 'all'}")
        for key in ("backend", "device_id"):
            kwargs.pop(key, None)
        group = create(ranks, *args, **kwargs)
        State.groups[group] = f"group {len(State.groups)} of {ranks}"
        return group

    def destroy_process_group(*args: Any) -> None:
        for group, number in sorted(State.calls.items()):
            _in_order(group, f"the end, after {number} calls", "end")
        leave(*args)

    for name, function in (
        ("init_process_group", init_process_group),
        ("new_group", new_group),
        ("destroy_process_group", destroy_process_group),
    ):
        replace(name, function)
    for name in COLLECTIVES:
        replace(name, _collective(name, getattr(c10d, name)))


def _collective(name: str, function: Any) -> Any:
    parameters = inspect.signature(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        group = parameters.bind(*args, **kwargs).arguments.get("group")
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if State.current is None:
            refuse(f"{name} before this rank has chosen a device")
        for tensor in tensors:
            if place(tensor) != f"cuda:{State.bound}":
                refuse(
                    f"Attempt to perform collective on tensor not on device passed to init_process_group: {name} on "
                    f"{place(tensor)}, and the group is of cuda:{State.bound}"
                )
        of_group = "world" if group in (None, torch.distributed.GroupMember.WORLD) else State.groups.get(group, "?")
        size = torch.distributed.get_world_size(group)
        shapes = [] if name in ("all_gather", "gather") else [(tuple(t.shape), str(t.dtype)) for t in tensors]
        note(name, torch.distributed.get_process_group_ranks(group or torch.distributed.group.WORLD))
        if size > 1:
            _in_order(of_group, f"{name} {shapes}")
        State.in_barrier = name == "barrier"
        try:
            return function(*args, **kwargs)
        finally:
            State.in_barrier = False

    return call


def _in_order(group: str, call: str, place: str = "") -> None:
    """Raises RuntimeError if another rank's call at this place of the group's calls was another."""
    if not place:
        place = str(State.calls[group])
        State.calls[group] += 1
    store = distributed_c10d._get_default_store()
    first = store.compare_set(f"stub {group} {place}", "", call).decode()
    if first != call:
        refuse(f"ranks disagree: call {place} of {group} is {call} here, and {first} on another rank")


def disagreement(directory: Path) -> str:
    """The first two ranks whose common collectives are in another order, whatever their groups; "" if none are. NCCL
    may wait forever for those. That one made fewer is for the ranks themselves to notice: this one may have been
    killed."""
    traces = {int(f.stem): [json.loads(line) for line in f.open()] for f in directory.glob("[0-9]*.jsonl")}
    for one, other in combinations(sorted(traces), 2):
        common = [
            [event for event in traces[rank] if event[0] in COLLECTIVES and {one, other} <= set(event[1])]
            for rank in (one, other)
        ]
        for number, pair in enumerate(zip(*common, strict=False)):
            if pair[0] != pair[1]:
                return f"ranks {one} and {other}: their common collective {number} is {pair[0]} and {pair[1]}"
    return ""
