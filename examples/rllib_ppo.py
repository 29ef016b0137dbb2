"""RLlib's PPO learns π(s, λ) on `acrl.AugmentedEnv`; `acrl.Agent` runs what it learnt.

The default budget shows the way and no more; the other examples train for ten times as long and meet all requirements.

pip install '.[gymnasium]' 'ray[rllib]' torch
python examples/rllib_ppo.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import acrl
import gymnasium
import ray
import torch
from four_regions import DISCOUNT, GAIN, REQUIREMENTS, SCALES, FourRegions, arguments, run
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env


def make(_: Any = None) -> acrl.AugmentedEnv:
    """Episodes of 100 steps from anywhere, and other weights after 50."""
    env = gymnasium.wrappers.TimeLimit(FourRegions(), 100)
    return acrl.AugmentedEnv(env, requirements=REQUIREMENTS, scales=SCALES, gain=GAIN, sampler="corners", every=50)


def train(steps: int, seed: int) -> Any:
    """The module of PPO, after as many steps."""
    here = str(Path(__file__).parent)  # where other processes find this file's neighbours
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": here}})
    register_env("four-regions", make)
    algorithm = (
        PPOConfig()
        .environment("four-regions")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=64, rollout_fragment_length=64)
        .training(
            lr=1e-3,
            gamma=DISCOUNT,
            lambda_=0.95,
            train_batch_size=4096,
            minibatch_size=512,
            num_epochs=8,
            clip_param=0.2,
            use_kl_loss=False,
            entropy_coeff=0.005,
            vf_clip_param=float("inf"),
            grad_clip=0.5,
        )
        .rl_module(
            model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
        )
        .debugging(seed=seed)
        .build_algo()
    )
    for _ in range(max(1, steps // 4096)):
        algorithm.train()
    module = algorithm.get_module()
    algorithm.stop()
    ray.shutdown()
    return module


def main() -> acrl.Agent:
    """Trains, then runs."""
    args = arguments(__doc__ or "", steps=40_960)
    module, augmented = train(args.steps, args.seed), make()

    @torch.no_grad()
    def policy(obs: Any, lam: Any) -> Any:
        seen = torch.as_tensor(augmented.augment(obs, lam))[None]
        parameters = module.forward_inference({Columns.OBS: seen})[Columns.ACTION_DIST_INPUTS]
        return parameters[0, :2].clamp(-1.0, 1.0).numpy()  # the mean of a Gaussian

    return run(policy, args.run, args.seed)


if __name__ == "__main__":
    agent = main()
    raise SystemExit(0 if all(entry.met for entry in agent.certificate.values()) else 1)
