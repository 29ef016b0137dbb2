"""PPO in the style of CleanRL's `ppo_continuous_action.py`: one file, one torch loop, its diagnostics, no logging.

`--lean` leaves out what does not change the result: the entropy (its coefficient is 0), the KL estimates and the
clipped share of each minibatch, and the argument checks of `torch.distributions`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn, optim
from torch.distributions.normal import Normal

import problem
from problem import CONFIGS, Config, Monitoring


def layer(inputs: int, outputs: int, gain: float = math.sqrt(2.0)) -> nn.Linear:
    """A linear layer with orthogonal weights and zero bias."""
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.constant_(linear.bias, 0.0)
    return linear


def mlp(outputs: int, gain: float) -> nn.Sequential:
    """6-64-64-outputs, tanh."""
    width = problem.HIDDEN
    return nn.Sequential(
        layer(problem.OBS_DIM, width), nn.Tanh(), layer(width, width), nn.Tanh(), layer(width, outputs, gain)
    )


class Agent(nn.Module):
    """Separate policy and value networks."""

    def __init__(self, lean: bool) -> None:
        super().__init__()
        self.lean = lean
        self.critic = mlp(1, 1.0)
        self.actor_mean = mlp(problem.ACT_DIM, 0.01)
        self.actor_logstd = nn.Parameter(torch.full((1, problem.ACT_DIM), problem.LOG_STD_INIT))

    def get_value(self, obs: Tensor) -> Tensor:
        value: Tensor = self.critic(obs).flatten()
        return value

    def get_action_and_value(self, obs: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        """The action, its log-probability, the value and, unless lean, the entropy."""
        mean = self.actor_mean(obs)
        std = torch.exp(self.actor_logstd).expand_as(mean)
        probs = Normal(mean, std, validate_args=False if self.lean else None)
        if action is None:
            action = probs.sample()  # type: ignore[no-untyped-call]
        logprob = probs.log_prob(action).sum(1)  # type: ignore[no-untyped-call]
        if self.lean:
            return action, logprob, self.get_value(obs)
        return action, logprob, self.get_value(obs), probs.entropy().sum(1)  # type: ignore[no-untyped-call]


def train(config: Config, iterations: int, seed: int, speed_limit: float, lean: bool) -> list[float]:
    """Returns the mean reward of each vector step."""
    torch.manual_seed(seed)
    np_rng = np.random.default_rng(seed + 1)
    env = Monitoring(config.envs, seed, speed_limit)
    agent = Agent(lean)
    optimizer = optim.Adam(agent.parameters(), lr=problem.LEARNING_RATE, eps=problem.ADAM_EPS)

    horizon, envs = config.horizon, config.envs
    obs = torch.zeros((horizon, envs, problem.OBS_DIM))
    actions = torch.zeros((horizon, envs, problem.ACT_DIM))
    logprobs = torch.zeros((horizon, envs))
    rewards = torch.zeros((horizon, envs))
    values = torch.zeros((horizon, envs))
    ended = np.zeros(horizon, bool)  # the episode ended with this step (all environments at once)
    next_obs = torch.from_numpy(env.observe())

    for _ in range(iterations):
        for t in range(horizon):
            obs[t] = next_obs
            with torch.no_grad():
                action, logprob, value, *_ = agent.get_action_and_value(next_obs)
            actions[t], logprobs[t], values[t] = action, logprob, value
            observation, reward, last = env.step(action.numpy())
            rewards[t] = torch.from_numpy(reward)
            ended[t] = last is not None
            if last is not None:  # truncated: bootstrap from the last observation, through the reward
                with torch.no_grad():
                    rewards[t] += problem.GAMMA * agent.get_value(torch.from_numpy(last))
            next_obs = torch.from_numpy(observation)

        with torch.no_grad():
            next_value = agent.get_value(next_obs)
            advantages = torch.zeros_like(rewards)
            gae = torch.zeros(envs)
            for t in reversed(range(horizon)):
                alive = 0.0 if ended[t] else 1.0
                delta = rewards[t] + problem.GAMMA * alive * next_value - values[t]
                gae = delta + problem.GAMMA * problem.GAE_LAMBDA * alive * gae
                advantages[t] = gae
                next_value = values[t]
            returns = advantages + values

        b_obs = obs.reshape(-1, problem.OBS_DIM)
        b_actions = actions.reshape(-1, problem.ACT_DIM)
        b_logprobs, b_advantages, b_returns = logprobs.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
        indices = np.arange(config.rollout)
        diagnostics: dict[str, Tensor] = {}
        clip_shares: list[float] = []
        for _ in range(config.passes):
            np_rng.shuffle(indices)
            for start in range(0, config.rollout, config.minibatch):
                mb = torch.from_numpy(indices[start : start + config.minibatch])
                _, newlogprob, newvalue, *entropy = agent.get_action_and_value(b_obs[mb], b_actions[mb])
                logratio = newlogprob - b_logprobs[mb]
                ratio = logratio.exp()
                if not lean:
                    with torch.no_grad():
                        diagnostics["old_kl"] = -logratio.mean()
                        diagnostics["kl"] = (ratio - 1.0 - logratio).mean()
                        clip_shares.append(((ratio - 1.0).abs() > problem.CLIP).float().mean().item())
                adv = b_advantages[mb]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                clipped = torch.clamp(ratio, 1.0 - problem.CLIP, 1.0 + problem.CLIP)
                policy_loss = -torch.min(adv * ratio, adv * clipped).mean()
                value_loss = ((newvalue - b_returns[mb]) ** 2).mean()
                loss = policy_loss + problem.VALUE_COEF * value_loss
                if not lean:
                    loss = loss - 0.0 * entropy[0].mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(agent.parameters(), problem.MAX_GRAD_NORM)
                optimizer.step()
    return env.rewards


def main() -> None:
    parser = problem.command_line(__doc__ or "")
    parser.add_argument("--lean", action="store_true", help="without diagnostics and argument checks")
    args = parser.parse_args()
    config = CONFIGS[args.config]
    torch.set_num_threads(1)
    train(config, 1, args.seed, args.speed_limit, args.lean)  # warm-up
    watch = problem.Stopwatch()
    rewards = train(config, problem.iterations(args.steps, config), args.seed, args.speed_limit, args.lean)
    problem.report(args, "torch-lean" if args.lean else "cleanrl", f"torch {torch.__version__}", watch.read(), rewards)


if __name__ == "__main__":
    main()
