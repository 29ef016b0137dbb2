"""Two requirements in an environment of MO-Gymnasium, met by one policy; then other bounds, without training again.

    pip install . mo-gymnasium
    python examples/mo_gymnasium.py

Rewards of resource-gathering-v0: -1 for a lost fight, gold brought home, gems brought home.
"""

import mo_gymnasium

import acrl

requirements = [acrl.at_least("gold", 0.03), acrl.at_least("gems", 0.02)]
policy = acrl.train("resource-gathering-v0", objective="fights", requirements=requirements, rewards=["fights", "gold", "gems"], total_steps=500_000)
agent, env = acrl.Agent(policy), mo_gymnasium.make("resource-gathering-v0")
for bounds in ({"gold": 0.03, "gems": 0.02}, {"gold": 0.02, "gems": 0.03}):
    for name, bound in bounds.items():
        agent.requirements[name] = bound  # from the next step on
    obs, _ = env.reset(seed=1)
    for _ in range(100_000):
        obs, reward, terminated, truncated, _ = env.step(agent.act(obs))
        agent.observe(reward)
        if terminated or truncated:
            obs, _ = env.reset()
    print(agent.certificate, agent.diagnosis, sep="\n")
