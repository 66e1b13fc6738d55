"""Soft actor-critic whose critic and actor read a history of observations.

The agent trains and is evaluated in turns, every `eval_every` updates.  Attention dropout
and layer dropout regularise the critic during updates; acting in the environment and
evaluation are deterministic networks.
"""
import copy
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class SACConfig:
    obs_dim: int = 8
    act_dim: int = 2
    history: int = 12
    width: int = 48
    heads: int = 4
    dropout: float = 0.1
    gamma: float = 0.99
    tau: float = 0.005
    alpha: float = 0.1
    lr: float = 3e-4
    eval_every: int = 10


class HistoryAttention(nn.Module):
    """Causal self-attention over the history; dropout on the weights in training mode."""

    def __init__(self, cfg: SACConfig):
        super().__init__()
        self.heads = cfg.heads
        self.attn_dropout = cfg.dropout
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.proj = nn.Linear(cfg.width, cfg.width)

    def forward(self, x):
        b, t, c = x.shape
        if not self.training:
            self.attn_dropout = 0.0
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_dropout, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class HistoryNet(nn.Module):
    def __init__(self, cfg: SACConfig, extra_in: int, n_out: int):
        super().__init__()
        w = cfg.width
        self.inp = nn.Linear(cfg.obs_dim, w)
        self.pos = nn.Parameter(0.02 * torch.randn(cfg.history, w))
        self.n1, self.n2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.attn = HistoryAttention(cfg)
        self.ff = nn.Sequential(nn.Linear(w, 2 * w), nn.ReLU(), nn.Dropout(cfg.dropout), nn.Linear(2 * w, w))
        self.out = nn.Sequential(nn.Linear(w + extra_in, w), nn.ReLU(), nn.Linear(w, n_out))

    def forward(self, hist, extra=None):
        x = self.inp(hist) + self.pos[-hist.shape[1]:]
        x = x + self.attn(self.n1(x))
        x = x + self.ff(self.n2(x))
        last = x[:, -1]
        return self.out(last if extra is None else torch.cat([last, extra], -1))


class Agent:
    def __init__(self, cfg: SACConfig):
        self.cfg = cfg
        self.actor = HistoryNet(cfg, 0, 2 * cfg.act_dim)
        self.critics = nn.ModuleList(HistoryNet(cfg, cfg.act_dim, 1) for _ in range(2))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False).eval()
        self.opt_a = torch.optim.Adam(self.actor.parameters(), cfg.lr)
        self.opt_c = torch.optim.Adam(self.critics.parameters(), cfg.lr)

    def pi(self, hist):
        mu, log_std = self.actor(hist).chunk(2, -1)
        dist = torch.distributions.Normal(mu, log_std.clamp(-5, 2).exp())
        raw = dist.rsample()
        act = torch.tanh(raw)
        logp = (dist.log_prob(raw) - torch.log(1 - act ** 2 + 1e-6)).sum(-1, keepdim=True)
        return act, logp

    @torch.no_grad()
    def act(self, hist, greedy=False):
        self.actor.eval()
        h = torch.as_tensor(np.stack(hist), dtype=torch.float32)[None]
        return torch.tanh(self.actor(h).chunk(2, -1)[0])[0] if greedy else self.pi(h)[0][0]

    def update(self, hist, act, rew, nxt, done):
        c = self.cfg
        self.actor.train()
        self.critics.train()
        with torch.no_grad():
            a2, lp2 = self.pi(nxt)
            q2 = torch.min(*(t(nxt, a2) for t in self.targets)) - c.alpha * lp2
            y = rew + c.gamma * (1 - done) * q2
        loss_c = sum(F.mse_loss(q(hist, act), y) for q in self.critics)
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()
        a, lp = self.pi(hist)
        loss_a = (c.alpha * lp - torch.min(*(q(hist, a) for q in self.critics))).mean()
        self.opt_a.zero_grad()
        loss_a.backward()
        self.opt_a.step()
        with torch.no_grad():
            for p, t in zip(self.critics.parameters(), self.targets.parameters()):
                t.lerp_(p, c.tau)
        return loss_c.item(), loss_a.item()


def rollout(agent, n, seed=0):
    """A stand-in for the environment: a random walk."""
    rng = np.random.default_rng(seed)
    hist = deque([np.zeros(agent.cfg.obs_dim)] * agent.cfg.history, maxlen=agent.cfg.history)
    total = 0.0
    for _ in range(n):
        a = agent.act(hist, greedy=True)
        hist.append(hist[-1] + 0.1 * rng.normal(size=agent.cfg.obs_dim))
        total -= float((a ** 2).sum())
    return total


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = SACConfig()
    agent = Agent(cfg)
    B = 16
    for step in range(20):
        batch = (torch.randn(B, cfg.history, cfg.obs_dim), torch.rand(B, cfg.act_dim) * 2 - 1, torch.randn(B, 1),
                 torch.randn(B, cfg.history, cfg.obs_dim), torch.zeros(B, 1))
        losses = agent.update(*batch)
        if step % cfg.eval_every == 0:
            print(step, losses, rollout(agent, 5))
