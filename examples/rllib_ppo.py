"""RLlib's PPO learns π(s, λ) on `acrl.AugmentedEnv`; `acrl.Agent` meets the requirements with it.

The problem is smaller than that of the other examples, two regions on a line, because RLlib takes longer for a step.

pip install '.[gymnasium]' 'ray[rllib]' torch
python examples/rllib_ppo.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import acrl
import gymnasium
import numpy as np
import ray
import torch
from four_regions import GAMMA, HALF_SIDE, REACH, WEIGHT_SCALE, arguments, run
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

REGIONS = {"left": -0.5, "right": 0.5}
REQUIREMENTS = [acrl.at_least("left", 0.4), acrl.at_least("right", 0.3)]
NUM_ENVS, N_STEPS = 16, 128


class Line(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Observes its position from -1 to 1, chooses its velocity; ``info`` has an indicator for each region."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.place = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts anywhere."""
        super().reset(seed=seed, options=options)
        self.place = float(self.np_random.uniform(-1.0, 1.0))
        return np.array([self.place], dtype=np.float32), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Moves."""
        self.place = min(max(self.place + REACH * float(action[0]), -1.0), 1.0)
        inside = {name: float(abs(self.place - centre) <= HALF_SIDE) for name, centre in REGIONS.items()}
        return np.array([self.place], dtype=np.float32), 0.0, False, False, inside


def make(_: Any = None) -> acrl.AugmentedEnv:
    """Episodes of 100 steps from anywhere, and other weights after 50."""
    env = gymnasium.wrappers.TimeLimit(Line(), 100)
    scales = dict.fromkeys(REGIONS, 1 / (1 - GAMMA))
    return acrl.AugmentedEnv(
        env,
        requirements=REQUIREMENTS,
        scales=scales,
        weight_scale=WEIGHT_SCALE,
        weight_sampler="faces",
        resample_every=50,
    )


def train(steps: int, seed: int) -> Any:
    """The module of PPO, after as many steps."""
    here = str(Path(__file__).parent)  # where other processes find this file's neighbours
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": here}})
    register_env("line", make)
    algorithm = (
        PPOConfig()
        .environment("line")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=NUM_ENVS, rollout_fragment_length=N_STEPS)
        .training(
            lr=1e-3,
            gamma=GAMMA,
            lambda_=0.95,
            train_batch_size=NUM_ENVS * N_STEPS,
            minibatch_size=256,
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
    for _ in range(max(1, steps // (NUM_ENVS * N_STEPS))):
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
        augmented_obs = torch.as_tensor(augmented.augment(obs, lam))[None]
        parameters = module.forward_inference({Columns.OBS: augmented_obs})[Columns.ACTION_DIST_INPUTS]
        return parameters[0, :1].clamp(-1.0, 1.0).numpy()  # the mean of a Gaussian

    return run(policy, args.run, args.seed, Line(), REQUIREMENTS)


if __name__ == "__main__":
    agent = main()
    raise SystemExit(0 if all(entry.met for entry in agent.certificate.values()) else 1)
