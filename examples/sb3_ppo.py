"""Stable-Baselines3's PPO learns π(s, λ) on `acrl.AugmentedEnv`; `acrl.Agent` meets the requirements with it.

pip install '.[gymnasium]' stable-baselines3
python examples/sb3_ppo.py
"""

from __future__ import annotations

import acrl
import gymnasium
import torch
from four_regions import GAMMA, REQUIREMENTS, SCALES, WEIGHT_SCALE, FourRegions, arguments, run
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env


def make() -> acrl.AugmentedEnv:
    """Episodes of 100 steps from anywhere, and other weights after 50."""
    env = gymnasium.wrappers.TimeLimit(FourRegions(), 100)
    return acrl.AugmentedEnv(
        env,
        requirements=REQUIREMENTS,
        scales=SCALES,
        weight_scale=WEIGHT_SCALE,
        weight_sampler="faces",
        resample_every=50,
    )


def train(steps: int, seed: int) -> PPO:
    """PPO as it is."""
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",
        make_vec_env(make, n_envs=64, seed=seed),
        learning_rate=lambda left: 1e-3 * max(left, 0.0),  # the last rollout may go beyond the end
        n_steps=64,
        batch_size=512,
        n_epochs=8,
        gamma=GAMMA,
        ent_coef=0.005,
        policy_kwargs={
            "net_arch": {"pi": [64, 64], "vf": [64, 64]},
        },
        seed=seed,
        device="cpu",
    )
    return model.learn(steps)


def main() -> acrl.Agent:
    """Trains, then runs."""
    args = arguments(__doc__ or "", steps=400_000)
    model, augmented = train(args.steps, args.seed), make()
    return run(
        lambda obs, lam: model.predict(augmented.augment(obs, lam), deterministic=True)[0],
        args.run,
        args.seed,
    )


if __name__ == "__main__":
    agent = main()
    raise SystemExit(0 if all(entry.met for entry in agent.certificate.values()) else 1)
