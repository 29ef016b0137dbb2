"""Stable-Baselines3 PPO, its own loop and buffers, on a vector environment that steps in one NumPy call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

import problem
from problem import CONFIGS, Config, Monitoring

# SB3 wants finite action bounds and clips to them; these are never reached (actions are in units of the speed limit).
ACTION_BOUND = 1e3


class MonitoringVecEnv(VecEnv):
    """`Monitoring` behind the interface of SB3, without a Python loop over environments."""

    def __init__(self, envs: int, seed: int, speed_limit: float) -> None:
        self.inner = Monitoring(envs, seed, speed_limit)
        self.actions = np.zeros((envs, problem.ACT_DIM), np.float32)
        self.going = np.zeros(envs, bool)
        self.ended = np.ones(envs, bool)
        self.no_info: list[dict[str, Any]] = [{} for _ in range(envs)]
        observations = gymnasium.spaces.Box(-1.0, 1.0, (problem.OBS_DIM,), np.float32)
        actions = gymnasium.spaces.Box(-ACTION_BOUND, ACTION_BOUND, (problem.ACT_DIM,), np.float32)
        super().__init__(envs, observations, actions)

    def reset(self) -> Any:
        return self.inner.reset()

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        obs, reward, last = self.inner.step(self.actions)
        if last is None:
            return obs, reward, self.going, self.no_info
        infos = [{"TimeLimit.truncated": True, "terminal_observation": row} for row in last]
        return obs, reward, self.ended, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.inner, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return [seed] * self.num_envs  # seeded when made


def make(config: Config, seed: int, speed_limit: float) -> tuple[PPO, Monitoring]:
    """A fresh learner and its environment."""
    env = MonitoringVecEnv(config.envs, seed, speed_limit)
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=problem.LEARNING_RATE,
        n_steps=config.horizon,
        batch_size=config.minibatch,
        n_epochs=config.passes,
        gamma=problem.GAMMA,
        gae_lambda=problem.GAE_LAMBDA,
        clip_range=problem.CLIP,
        clip_range_vf=None,
        normalize_advantage=True,
        ent_coef=0.0,
        vf_coef=problem.VALUE_COEF,
        max_grad_norm=problem.MAX_GRAD_NORM,
        target_kl=None,
        policy_kwargs={
            "net_arch": {"pi": [problem.HIDDEN] * 2, "vf": [problem.HIDDEN] * 2},
            "activation_fn": torch.nn.Tanh,
            "ortho_init": True,
            "log_std_init": problem.LOG_STD_INIT,
            "optimizer_kwargs": {"eps": problem.ADAM_EPS},
        },
        seed=seed,
        device="cpu",
        verbose=0,
    )
    return model, env.inner


def main() -> None:
    args = problem.command_line(__doc__ or "").parse_args()
    config = CONFIGS[args.config]
    torch.set_num_threads(1)
    steps = problem.iterations(args.steps, config) * config.rollout

    warm, _ = make(config, args.seed, args.speed_limit)
    warm.learn(config.rollout, log_interval=10**9)

    model, env = make(config, args.seed, args.speed_limit)
    watch = problem.Stopwatch()
    model.learn(steps, log_interval=10**9)
    elapsed = watch.read()
    problem.report(args, "sb3", f"{stable_baselines3.__version__} (torch {torch.__version__})", elapsed, env.rewards)


if __name__ == "__main__":
    main()
