"""What vLLM makes of every recipe's engine arguments on an H100, which is not there:
`python -m tests.infra.vllm_configurations MODELS OUT.json`. A process of its own: vLLM chooses its platform once."""

# pyright: reportMissingImports=false
# vLLM is an extra, and is not installed where types are checked.
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import torch

from ratchet.infra.inference.with_vllm import Vllm
from ratchet.infra.recipe import load_recipe

RECIPES = sorted(Path(__file__).parents[2].glob("recipes/**/*.yaml"))
SHAPES = {  # of Qwen2.5: layers, hidden size, intermediate size, heads, heads of keys and values
    "0.5B-Instruct": (24, 896, 4864, 14, 2),
    "1.5B": (28, 1536, 8960, 12, 2),
    "7B": (28, 3584, 18944, 28, 4),
    "14B": (48, 5120, 13824, 40, 8),
    "32B": (64, 5120, 27648, 40, 8),
}


def write_models(directory: Path) -> None:
    """Their configurations, which is all that vLLM reads of them before it loads weights."""
    for name, (layers, hidden, intermediate, heads, key_value_heads) in SHAPES.items():
        (directory / name).mkdir(parents=True)
        config = {
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": hidden,
            "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": key_value_heads,
            "intermediate_size": intermediate, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
        }  # fmt: skip
        (directory / name / "config.json").write_text(json.dumps(config))


def on_an_h100() -> None:
    """vLLM then configures itself for one."""
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 8
    # Kernels for GPUs, which the package for CPUs does not have. No configuration calls one.
    sys.modules.setdefault("vllm._C_stable_libtorch", ModuleType("vllm._C_stable_libtorch"))
    from vllm import platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    class H100(CudaPlatformBase):
        @classmethod
        def get_device_capability(cls, device_id: int = 0):
            return DeviceCapability(9, 0)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "NVIDIA H100 80GB HBM3"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return int(79.2 * 2**30)

        @classmethod
        def is_fully_connected(cls, device_ids) -> bool:
            return True

        @classmethod
        def device_count(cls) -> int:
            return 8

        def is_cumem_allocator_available(self) -> bool:
            return True

    platforms._current_platform = H100()


def main(models: Path, out: Path) -> None:
    write_models(models)
    # What vLLM has to know of the architecture, it finds in a process that knows of no H100, and keeps.
    inspection = (
        "import sys; from vllm.engine.arg_utils import EngineArgs; EngineArgs(sys.argv[1]).create_model_config()"
    )
    subprocess.run([sys.executable, "-c", inspection, str(models / "1.5B")], check=True)
    on_an_h100()
    from vllm.engine.arg_utils import EngineArgs

    from ratchet.infra.inference.vllm_engine import _arguments

    configurations = {}
    for file in RECIPES:
        recipe = load_recipe(str(file))
        training, path = recipe.training, recipe.model.path or ""
        size = next((name for name in SHAPES if path.endswith(name)), None)
        if not isinstance(training.engine, Vllm) or size is None:
            continue
        for use, settings, among_ranks in (
            ("training", training.engine, True),
            ("evaluation", training.engine.for_evaluation(), False),
        ):
            hardware = training.hardware
            batch = hardware.rollout_batch * settings.tensor_parallel
            arguments = _arguments(str(models / size), hardware.dtype, batch, settings, among_ranks)
            config = EngineArgs(**arguments).create_engine_config()
            configurations[f"{recipe.name} {use}"] = {
                "asked": [hardware.dtype, batch, settings.tensor_parallel, settings.memory_share, among_ranks],
                "made": [
                    str(config.model_config.dtype).removeprefix("torch."), config.scheduler_config.max_num_seqs,
                    config.parallel_config.tensor_parallel_size, config.cache_config.gpu_memory_utilization,
                    config.model_config.enable_sleep_mode,
                ],
                "load_format": str(config.load_config.load_format), "eager": config.model_config.enforce_eager,
            }  # fmt: skip
    out.write_text(json.dumps(configurations))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
