"""Two requirements in an environment of MO-Gymnasium, met by one policy; then other bounds, without training again.

pip install . mo-gymnasium
python examples/resource_gathering.py

The rewards of resource-gathering-v0 are -1 for a fight that is lost, gold brought home, and gems brought home.
"""

import acrl
import mo_gymnasium

bounds = [acrl.at_least("reward1", 0.03), acrl.at_least("reward2", 0.02)]
policy = acrl.train("resource-gathering-v0", objective="reward0", requirements=bounds, total_steps=500_000)
agent, env = acrl.Agent(policy), mo_gymnasium.make("resource-gathering-v0")
for gold, gems in ((0.03, 0.02), (0.02, 0.03)):
    agent.requirements["reward1"], agent.requirements["reward2"] = gold, gems  # from the next step on
    obs, _ = env.reset(seed=1)
    for _ in range(100_000):
        obs, rewards, terminated, truncated, _ = env.step(agent.act(obs))
        agent.observe(rewards)
        if terminated or truncated:
            obs, _ = env.reset()
    for certified in agent.certificate.values():
        print(certified)
    print(agent.diagnosis)
