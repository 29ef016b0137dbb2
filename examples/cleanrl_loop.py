"""PPO in one file, in the manner of CleanRL, on `acrl.AugmentedVectorEnv`; `acrl.Agent` runs the policy.

pip install '.[gymnasium]' torch
python examples/cleanrl_loop.py
"""

from __future__ import annotations

from typing import Any

import acrl
import numpy as np
import torch
from four_regions import GAMMA, REQUIREMENTS, SCALES, WEIGHT_SCALE, ManyFourRegions, arguments, run
from torch import nn

NUM_ENVS, N_STEPS, UPDATE_EPOCHS, MINIBATCH_SIZE = 64, 64, 8, 512
LEARNING_RATE, GAE_LAMBDA, CLIP_RANGE, ENT_COEF = 1e-3, 0.95, 0.2, 0.005


def network(inputs: int, outputs: int, last: float) -> nn.Sequential:
    """Two hidden layers."""
    layers: list[nn.Module] = []
    for a, b, gain in ((inputs, 64, 2**0.5), (64, 64, 2**0.5), (64, outputs, last)):
        layer = nn.Linear(a, b)
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class ActorCritic(nn.Module):
    """A Gaussian policy and a value."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.actor, self.critic = network(inputs, outputs, 0.01), network(inputs, 1, 1.0)
        self.log_std = nn.Parameter(torch.zeros(outputs))

    def policy(self, obs: torch.Tensor) -> torch.distributions.Independent:
        """π(·|s, w)."""
        normal = torch.distributions.Normal(self.actor(obs), self.log_std.exp().expand(len(obs), -1))
        return torch.distributions.Independent(normal, 1)

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        """V(s, w)."""
        found: torch.Tensor = self.critic(obs).squeeze(-1)
        return found

    @torch.no_grad()
    def predict(self, obs: Any) -> Any:
        """The mean action for one observation."""
        return self.actor(torch.as_tensor(obs)).clamp(-1.0, 1.0).numpy()


def train(envs: acrl.AugmentedVectorEnv, steps: int, seed: int) -> ActorCritic:
    """Proximal policy optimisation."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    width = envs.single_observation_space.shape[0]  # type: ignore[index]
    model = ActorCritic(width, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, eps=1e-5)
    seen = torch.as_tensor(envs.reset(seed=seed)[0])
    iterations = max(1, steps // (NUM_ENVS * N_STEPS))
    for k in range(iterations):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - k / iterations)
        obs, actions = torch.zeros(N_STEPS, NUM_ENVS, width), torch.zeros(N_STEPS, NUM_ENVS, 2)
        log_probs, rewards, values, next_values = (torch.zeros(N_STEPS, NUM_ENVS) for _ in range(4))
        over = torch.zeros(N_STEPS, NUM_ENVS, dtype=torch.bool)
        for t in range(N_STEPS):
            with torch.no_grad():
                policy = model.policy(seen)
                action = policy.sample()
                obs[t], actions[t], log_probs[t], values[t] = seen, action, policy.log_prob(action), model.value(seen)
                stepped, reward, _, truncated, infos = envs.step(np.clip(action.numpy(), -1.0, 1.0))
                rewards[t], over[t], seen = (
                    torch.as_tensor(reward),
                    torch.as_tensor(truncated),
                    torch.as_tensor(stepped),
                )
                # Episodes are only truncated: bootstrap from the final observation.
                last = np.stack(infos["final_obs"]) if truncated.any() else stepped
                next_values[t] = model.value(torch.as_tensor(last))
        with torch.no_grad():
            advantages, carry = torch.zeros_like(rewards), torch.zeros(NUM_ENVS)
            for t in reversed(range(N_STEPS)):
                carry = rewards[t] + GAMMA * next_values[t] - values[t] + GAMMA * GAE_LAMBDA * carry * ~over[t]
                advantages[t] = carry
            returns = (advantages + values).reshape(-1)
        flat = [x.reshape(-1, *x.shape[2:]) for x in (obs, actions, log_probs, advantages)]
        for _ in range(UPDATE_EPOCHS):
            for batch in torch.randperm(NUM_ENVS * N_STEPS).split(MINIBATCH_SIZE):
                o, a, old, g = (x[batch] for x in flat)
                g = (g - g.mean()) / (g.std() + 1e-8)
                policy = model.policy(o)
                ratio = (policy.log_prob(a) - old).exp()
                gain = torch.min(ratio * g, ratio.clamp(1 - CLIP_RANGE, 1 + CLIP_RANGE) * g).mean()
                loss = (
                    0.5 * (model.value(o) - returns[batch]).square().mean() - gain - ENT_COEF * policy.entropy().mean()
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
    return model


def main() -> acrl.Agent:
    """Trains, then runs."""
    args = arguments(__doc__ or "", steps=400_000)
    envs = acrl.AugmentedVectorEnv(
        ManyFourRegions(NUM_ENVS, 100),
        requirements=REQUIREMENTS,
        scales=SCALES,
        weight_scale=WEIGHT_SCALE,
        weight_sampler="faces",
        resample_every=50,
    )
    model = train(envs, args.steps, args.seed)
    return run(lambda obs, lam: model.predict(envs.augment(obs, lam)), args.run, args.seed)


if __name__ == "__main__":
    agent = main()
    raise SystemExit(0 if all(entry.met for entry in agent.certificate.values()) else 1)
