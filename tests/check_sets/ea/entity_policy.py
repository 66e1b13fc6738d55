"""PPO policy with entity attention (SMAC micro management).

own       [B, D_own]        own features of the agent
entities  [B, E, D_ent]     visible allies and enemies, unused slots are zero rows
dead      [B, E] bool       True = slot unused or unit dead.  Such slots must have no influence
                            on the policy.  At least one slot is alive.

The agent's own embedding is the query (single head, scaled by 1/sqrt(d)); the logits of the
actions come from [own; attended].  Returns (logits [B, A], value [B]).
"""
import torch
import torch.nn as nn


class EntityPolicy(nn.Module):
    def __init__(self, d_own, d_ent, n_actions, d=64):
        super().__init__()
        self.own = nn.Sequential(nn.Linear(d_own, d), nn.Tanh())
        self.ent = nn.Sequential(nn.Linear(d_ent, d), nn.Tanh())
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.pi = nn.Linear(2 * d, n_actions)
        self.vf = nn.Linear(2 * d, 1)
        self.d = d

    def forward(self, own, entities, dead):
        o = self.own(own)
        k, v = self.kv(self.ent(entities)).chunk(2, dim=-1)
        logits = torch.einsum('bd,bed->be', self.q(o), k) / self.d ** 0.5
        logits.masked_fill(dead, -1e8)
        w = logits.softmax(dim=-1)
        ctx = torch.einsum('be,bed->bd', w, v)
        z = torch.cat([o, ctx], dim=-1)
        return self.pi(z), self.vf(z).squeeze(-1)
