"""Episodic read-out used by the navigation agent.

During an episode the agent writes (key, value) pairs into a fixed-size bank
and, at every control tick, reads the bank with the current observation
embedding.  Reading is ordinary scaled dot-product attention over the slots
that have been written so far; empty slots take no part.
"""
from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor, nn


class EpisodicReader(nn.Module):
    def __init__(self, obs_dim: int, mem_dim: int = 32, slots: int = 64):
        super().__init__()
        self.slots = slots
        self.to_q = nn.Linear(obs_dim, mem_dim, bias=False)
        self.to_k = nn.Linear(obs_dim, mem_dim, bias=False)
        self.to_v = nn.Linear(obs_dim, mem_dim)
        self.scale = 1.0 / math.sqrt(mem_dim)
        self.register_buffer("bank_k", torch.zeros(slots, mem_dim), persistent=False)
        self.register_buffer("bank_v", torch.zeros(slots, mem_dim), persistent=False)
        self.reset()

    # ------------------------------------------------------------------ state
    def reset(self) -> None:
        """Forget everything; call at the start of an episode."""
        self.used = 0
        self.version = 0
        self._memo: dict[tuple, Tensor] = {}

    @torch.no_grad()
    def write(self, obs: Tensor) -> None:
        """Append the observations ``obs`` [n, obs_dim] (oldest are evicted)."""
        k, v = self.to_k(obs), self.to_v(obs)
        for ki, vi in zip(k, v):
            if self.used == self.slots:
                self.bank_k.copy_(self.bank_k.roll(-1, 0))
                self.bank_v.copy_(self.bank_v.roll(-1, 0))
                self.used -= 1
            self.bank_k[self.used] = ki
            self.bank_v[self.used] = vi
            self.used += 1
        self.version += 1
        self._memo.clear()

    # ------------------------------------------------------------------- read
    def _weights(self, obs: Tensor) -> Tensor:
        # The planner calls us several times per tick (policy head, value head,
        # logger), so the distribution is computed once and then looked up.
        key = (self.version, self.used, tuple(obs.shape))
        hit = self._memo.get(key)
        if hit is None:
            q = self.to_q(obs) * self.scale
            hit = torch.softmax(q @ self.bank_k[: self.used].T, dim=-1)
            self._memo[key] = hit
        return hit

    def forward(self, obs: Tensor, return_weights: bool = False):
        """obs [b, obs_dim] -> read vector [b, mem_dim] for exactly this obs."""
        if self.used == 0:
            out = obs.new_zeros(obs.shape[0], self.bank_v.shape[1])
            return (out, None) if return_weights else out
        w = self._weights(obs)
        out = w @ self.bank_v[: self.used]
        return (out, w) if return_weights else out


class NavPolicy(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, mem_dim: int = 32):
        super().__init__()
        self.reader = EpisodicReader(obs_dim, mem_dim)
        self.head = nn.Sequential(
            nn.Linear(obs_dim + mem_dim, 64), nn.ReLU(), nn.Linear(64, n_actions)
        )

    def act(self, obs: Tensor, greedy: Optional[bool] = True) -> Tensor:
        logits = self.head(torch.cat([obs, self.reader(obs)], dim=-1))
        self.reader.write(obs)
        if greedy:
            return logits.argmax(-1)
        return torch.distributions.Categorical(logits=logits).sample()
