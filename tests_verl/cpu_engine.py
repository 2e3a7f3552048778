"""Stand-ins that let verl's own trainer run without a GPU: a platform, and an engine that generates.

Both enter by verl's own registries. Trainer, workers, FSDP, replay buffer, TransferQueue, agent loops, rewards, weight
updates and checkpoints are verl's. verl imports this module in every process (`VERL_USE_EXTERNAL_MODULES`).
"""

# ruff: noqa: ARG002, ARG005

import asyncio
import types
import zlib
from contextlib import contextmanager
from functools import partial

import ray
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

DEVICE = types.SimpleNamespace(
    **{name: (lambda *_, **__: 0) for name in (
        "empty_cache", "synchronize", "memory_allocated", "memory_reserved", "max_memory_allocated",
        "max_memory_reserved", "reset_peak_memory_stats", "set_device", "current_device", "manual_seed",
    )},
    is_available=lambda: False,
    mem_get_info=lambda *_: (0, 0),
    device_count=lambda: 1,
    get_rng_state=lambda *_: torch.get_rng_state(),
    set_rng_state=lambda state, *_: torch.set_rng_state(state),
    get_device_name=lambda *_: "CPU",
)  # fmt: skip


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """One processor; its one "GPU" is a number that Ray was told."""

    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: DEVICE)

    def is_available(self):
        return True

    def current_device(self):
        return "cpu"

    def device_count(self):
        return 1

    def set_device(self, device_index):
        pass

    def synchronize(self, device_index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg):
        yield

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "GPU"

    def ray_resource_options(self, num_gpus):
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None


# The platform must be there before these are imported. verl would ask for 'cpu:gloo,cpu:gloo'.
from verl.utils import distributed  # noqa: E402

distributed.initialize_global_process_group_ray = partial(
    distributed.initialize_global_process_group_ray, backend="gloo"
)

from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead  # noqa: E402
from verl.workers.rollout import base  # noqa: E402
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput  # noqa: E402

# verl registers its FSDP engine for 'cuda' and 'npu' alone.
EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device=["cpu"])(FSDPEngineWithLMHead)


@ray.remote(num_cpus=0)
class Server:
    """Samples from the policy, one request after another."""

    def __init__(self, path):
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        self.step, self.updates = 0, 0

    async def load(self, weights, step):
        self.model.load_state_dict(weights)
        self.step, self.updates = step or 0, self.updates + 1

    async def generate(self, prompt_ids, sampling_params, request_id, **_):
        generator = torch.Generator().manual_seed(zlib.crc32(request_id.encode()))
        ids, found, log_probs = list(prompt_ids), [], []
        while len(found) < (sampling_params.get("max_tokens") or 4):
            with torch.no_grad():
                chances = self.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            token = int(torch.multinomial(chances.exp(), 1, generator=generator))
            ids.append(token)
            found.append(token)
            log_probs.append(float(chances[token]))
            if token == self.model.config.eos_token_id:
                break
        return TokenOutput(
            token_ids=found,
            log_probs=log_probs,
            stop_reason="completed",
            extra_fields={"global_steps": self.step, "min_global_steps": self.step, "max_global_steps": self.step},
        )

    async def nothing(self, **_):
        pass

    sleep = wake_up = abort_all_requests = resume_generation = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class Replica(RolloutReplica):
    async def launch_servers(self):
        self._server_address = f"cpu-{self.replica_rank}"
        server = Server.options(name=self._server_address).remote(self.model_config.path)
        self.servers, self._server_handle = [server], server


RolloutReplicaRegistry.register("cpu", lambda: Replica)


class Rollout(base.BaseRollout):
    """In the worker: hands the weights of each step to the server."""

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, wire_format="named_tensors", global_steps=None, **_):
        assert wire_format == "named_tensors"
        tensors = {name: tensor.detach().cpu().float().clone() for name, tensor in weights}
        await asyncio.wrap_future(ray.get_actor("cpu-0").load.remote(tensors, global_steps).future())


base._ROLLOUT_REGISTRY["cpu", "async"] = "cpu_engine.Rollout"
