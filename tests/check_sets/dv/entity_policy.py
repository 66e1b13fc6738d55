from typing import NamedTuple

import torch
import torch.nn as nn
from torch import Tensor


class Obs(NamedTuple):
    me: Tensor        # [env, own]           own state
    others: Tensor    # [env, n, ent]        entities, any order
    visible: Tensor   # [env, n]             1.0 = in sight, 0.0 = not


class EntityPolicy(nn.Module):
    """Actor for the hide-and-seek toy: own state queries the entities in sight (one head per
    "role"), logits are q.k/sqrt(head size), softmax over the entities.

    If nothing is in sight, the read vector is all zeros. Returns (action_logits [env, actions],
    weights [env, roles, n]); the weights of unseen entities are 0.
    """

    def __init__(self, own: int = 6, ent: int = 4, roles: int = 3, size: int = 8, actions: int = 5):
        super().__init__()
        self.roles, self.size = roles, size
        self.ask = nn.Linear(own, roles * size)
        self.key = nn.Linear(ent, roles * size)
        self.val = nn.Linear(ent, roles * size)
        self.pi = nn.Sequential(nn.Linear(own + roles * size, 32), nn.Tanh(), nn.Linear(32, actions))

    def forward(self, obs: Obs) -> tuple[Tensor, Tensor]:
        E, n, _ = obs.others.shape
        q = self.ask(obs.me).reshape(E, self.roles, 1, self.size)
        k = self.key(obs.others).reshape(E, n, self.roles, self.size).movedim(1, 2)
        v = self.val(obs.others).reshape(E, n, self.roles, self.size).movedim(1, 2)

        sim = (q * k).sum(-1).div(self.size ** 0.5)              # e r n
        seen = obs.visible.unsqueeze(1)                          # e 1 n
        sim = sim - 1e9 * (1.0 - seen)
        # second product only matters when nobody is in sight
        w = sim.softmax(-1) * seen
        read = (w.unsqueeze(-1) * v).sum(2).reshape(E, -1)       # e (r d)
        return self.pi(torch.cat([obs.me, read], -1)), w
