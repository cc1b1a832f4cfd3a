"""The reinforcement-learning engine: curriculum, rollouts, rewards, GRPO, policy, checkpoints."""
