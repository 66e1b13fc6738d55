import torch
import torch.nn as nn


class ArmPolicy(nn.Module):
    """Action head of a manipulation policy.

    obs: (batch, steps, obs_dim), the last `steps` joint and camera readings of each robot.
    Every step attends to all the steps of the same robot's history; robots in a batch are
    unrelated episodes.  Returns the next action of each robot, (batch, act_dim), in [-1, 1].
    """

    def __init__(self, obs_dim=20, d=32, heads=4, act_dim=7, max_steps=16):
        super().__init__()
        self.embed = nn.Linear(obs_dim, d)
        self.step_embed = nn.Parameter(torch.randn(max_steps, d) * 0.02)
        self.history_attn = nn.MultiheadAttention(d, heads)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.head = nn.Sequential(nn.Linear(d, act_dim), nn.Tanh())

    def forward(self, obs):
        steps = obs.size(1)
        x = self.embed(obs) + self.step_embed[:steps]
        y, _ = self.history_attn(x, x, x, need_weights=False)
        x = self.n1(x + y)
        x = self.n2(x + self.ff(x))
        return self.head(x[:, -1])
