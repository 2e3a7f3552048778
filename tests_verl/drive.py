"""A task for verl's trainer: two characters, rewarded for being digits; the key is the first one."""

import json
import os
import sys
from pathlib import Path

CONFIG = Path(__file__).parent.parent / "examples" / "verl"


def key(completion):
    """The first character; what it was shown goes to a file."""
    with Path(os.environ["SEEN_BY_KEY"]).open("a") as file:
        prompt = completion.prompt[0]["content"]
        seen = {"prompt": prompt, "text": str(completion), "level": completion.columns["extra_info"]["level"]}
        file.write(json.dumps(seen) + "\n")
    return completion[:1]


def reward(data_source, solution_str, ground_truth, extra_info=None, **_):  # noqa: ARG001
    """In [0, 1], with several values."""
    return min(1.0, 0.25 * sum(c.isdigit() for c in solution_str) + 0.1 * solution_str.startswith(ground_truth))


def prepare(folder):
    """A tiny model, its tokenizer and a data set."""
    import pandas
    from tiny_llama import character_tokenizer, tiny_llama

    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(folder / "model")
    tiny_llama(tokenizer, 0).save_pretrained(folder / "model")
    rows = [
        {
            "data_source": "digits",
            "prompt": [{"role": "user", "content": f"{i % 10}{i // 10}="}],
            "reward_model": {"style": "rule", "ground_truth": str(i % 10)},
            "extra_info": {"index": i, "level": i % 3},
        }
        for i in range(16)
    ]
    pandas.DataFrame(rows).to_parquet(folder / "data.parquet")


def settings(folder, steps):
    """What makes the example's configuration small, as main_ppo takes it."""
    chosen = {
        "data.train_files": f"{folder}/data.parquet",
        "data.val_files": f"{folder}/data.parquet",
        "data.train_batch_size": 4,
        "data.max_prompt_length": 8,
        "data.max_response_length": 4,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": f"{folder}/model",
        "actor_rollout_ref.model.use_remove_padding": False,
        "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.actor.ppo_mini_batch_size": 4,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.actor.optim.lr": 0.01,
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.dtype": "float32",
        # verl's default is bfloat16, for which processors differ in what they can do.
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision": (
            "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}"
        ),
        "actor_rollout_ref.rollout.name": "cpu",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.load_format": "auto",
        "actor_rollout_ref.rollout.agent.num_workers": 1,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "reward.num_workers": 1,
        "reward.custom_reward_function.path": str(Path(__file__)),
        "reward.custom_reward_function.name": "reward",
        "polychromic.key": "drive:key",
        "trainer.n_gpus_per_node": 1,
        "trainer.device": "cpu",
        "trainer.logger": "[file]",
        "trainer.project_name": "polychromic",
        "trainer.experiment_name": f"steps-{steps}",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": 1,
        "trainer.total_training_steps": steps,
        "trainer.default_local_dir": f"{folder}/checkpoints",
        "trainer.rollout_data_dir": f"{folder}/rollouts",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    }
    return tuple(f"{name}={value}" for name, value in chosen.items())


def main(folder, runs):
    """verl's own task runner, once for each of `runs`, to that many steps; it resumes from the last checkpoint."""
    import ray
    from verl.trainer.main_ppo import TaskRunnerV1

    from polychromic.integrations.verl_check import check_by_verl, composed

    if not (folder / "model").exists():
        prepare(folder)
    for steps in runs:
        config = composed(settings(folder, steps), CONFIG / "polychromic.yaml")
        check_by_verl(config)
        ray.init(num_cpus=16, num_gpus=1, include_dashboard=False)
        # In this process instead of an actor of its own.
        TaskRunnerV1.__ray_metadata__.modified_class().run(config)
        ray.shutdown()


def environment(folder):
    """What verl's processes need to find the stand-ins."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parent / "examples" / "language_model"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "VERL_USE_EXTERNAL_MODULES": "cpu_engine",
        "VERL_PLATFORM": "cpu",
        "VERL_FILE_LOGGER_ROOT": f"{folder}/metrics",
        "SEEN_BY_KEY": f"{folder}/seen.jsonl",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_worker_niceness": "0",
        "RAY_raylet_start_wait_time_s": "300",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        # Virtual processors may promise AMX and die of it.
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(steps) for steps in sys.argv[2:]])
