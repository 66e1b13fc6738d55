# Arena bot - entity encoder of the policy network (PPO)
import torch
from torch import nn

MAX_UNITS = 12
UNIT_FEATS = 9


class EntityPooling(nn.Module):
    """The hero looks at the units around it, with several heads; each head has its own
    distribution over the units.

    hero  (N, hero_dim)
    units (N, U, unit_dim)
    alive (N, U) 1.0 for living units, 0.0 for empty slots
    """

    def __init__(self, hero_dim, unit_dim, heads=4, size=8):
        super().__init__()
        self.heads, self.size = heads, size
        self.q = nn.Linear(hero_dim, heads * size)
        self.k = nn.Linear(unit_dim, heads * size)
        self.v = nn.Linear(unit_dim, heads * size)
        self.post = nn.Sequential(nn.Linear(heads * size, hero_dim), nn.ReLU())

    def forward(self, hero, units, alive):
        N, U, _ = units.shape
        q = self.q(hero).view(N, self.heads, 1, self.size)
        k = self.k(units).view(N, U, self.heads, self.size).transpose(1, 2)
        v = self.v(units).view(N, U, self.heads, self.size).transpose(1, 2)
        logit = (q * k).sum(-1) / self.size**0.5  # N, heads, U
        logit = logit.masked_fill(alive[:, None, :] == 0, -1e9)
        w = logit.flatten(1).softmax(-1).view(N, self.heads, U)
        ctx = (w.unsqueeze(-1) * v).sum(2).flatten(1)
        return self.post(ctx), w


class Policy(nn.Module):
    def __init__(self, hero_dim=32, n_actions=10):
        super().__init__()
        self.hero = nn.Sequential(nn.Linear(20, hero_dim), nn.Tanh())
        self.look = EntityPooling(hero_dim, UNIT_FEATS)
        self.pi = nn.Linear(2 * hero_dim, n_actions)
        self.vf = nn.Linear(2 * hero_dim, 1)

    def forward(self, obs):
        h = self.hero(obs["self"])
        c, _ = self.look(h, obs["units"], obs["alive"])
        z = torch.cat([h, c], -1)
        return torch.distributions.Categorical(logits=self.pi(z)), self.vf(z).squeeze(-1)
