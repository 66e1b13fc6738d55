"""Policy network of the arena bot: a set of visible units -> per-unit and pooled features.

Observations are padded to `max_units`; `alive` tells which slots are filled.
At the very start of a match a player may see nobody at all.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ArenaConfig:
    unit_features: int = 12
    max_units: int = 32
    width: int = 64
    heads: int = 4
    blocks: int = 3
    actions: int = 9


class UnitAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.d = width // heads
        self.norm = nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, units, alive):
        """units [*, N, width], alive [*, N] bool. Slots without a unit get a zero update."""
        x = self.norm(units)
        lead = x.shape[:-1]
        q, k, v = (f(x).view(*lead, self.heads, self.d).transpose(-2, -3) for f in (self.q, self.k, self.v))
        logits = q @ k.transpose(-1, -2) * self.d ** -0.5
        pair = (alive.unsqueeze(-1) & alive.unsqueeze(-2)).unsqueeze(-3)
        logits = logits.masked_fill(~pair, torch.finfo(logits.dtype).min)
        w = logits.softmax(dim=-1)
        w = w.masked_fill(~pair, 0.0)
        y = (w @ v).transpose(-2, -3).reshape(*lead, self.heads * self.d)
        return self.o(y)


class UnitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn = UnitAttention(width, heads)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x, alive):
        x = x + self.attn(x, alive)
        return x + self.mlp(x)


class ArenaPolicy(nn.Module):
    def __init__(self, cfg: ArenaConfig):
        super().__init__()
        self.embed = nn.Linear(cfg.unit_features, cfg.width)
        self.blocks = nn.ModuleList(UnitBlock(cfg.width, cfg.heads) for _ in range(cfg.blocks))
        self.move = nn.Linear(cfg.width, cfg.actions)
        self.pointer = nn.Linear(cfg.width, cfg.width)
        self.value = nn.Linear(cfg.width, 1)

    def forward(self, obs, alive):
        x = self.embed(obs)
        for b in self.blocks:
            x = b(x, alive)
        m = alive.unsqueeze(-1).to(x.dtype)
        pooled = (x * m).sum(-2) / m.sum(-2).clamp(min=1.0)
        target = (x @ self.pointer(pooled).unsqueeze(-1)).squeeze(-1)
        target = target.masked_fill(~alive, torch.finfo(x.dtype).min)
        return {"move": self.move(pooled), "target": target, "value": self.value(pooled).squeeze(-1)}


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    adv = torch.zeros_like(rewards)
    running = torch.zeros_like(last_value)
    for t in range(rewards.size(0) - 1, -1, -1):
        nxt = last_value if t == rewards.size(0) - 1 else values[t + 1]
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * nxt * alive - values[t]
        running = delta + gamma * lam * alive * running
        adv[t] = running
    return adv, adv + values


def ppo_loss(logp, old_logp, adv, clip=0.2):
    ratio = torch.exp(logp - old_logp)
    return -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
