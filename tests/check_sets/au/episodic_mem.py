"""Episodic memory for a PPO agent: the current observation queries the steps of this episode."""
import numpy as np
import torch
import torch.nn as nn


class EpisodeBuffer:
    def __init__(self, envs, max_steps, dim):
        self.mem = torch.zeros(envs, max_steps, dim)
        self.t = torch.zeros(envs, dtype=torch.long)

    def reset(self, env):
        self.mem[env] = 0
        self.t[env] = 0

    def push(self, h):
        r = torch.arange(h.shape[0])
        self.mem[r, self.t.clamp(max=self.mem.shape[1] - 1)] = h.detach()
        self.t += 1

    def filled(self):
        """bool [envs, max_steps], True = this slot holds a past step"""
        return torch.arange(self.mem.shape[1])[None] < self.t[:, None]


class MultiHeadMemory(nn.Module):
    """Attention of `query` [B, 1, E] over memory `keys`, `values` [B, M, E].

    Like in "Attention is all you need", every head has its own linear maps for
    queries, keys and values.
    """

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_size = embed_dim // num_heads
        self.values = nn.Linear(self.head_size, self.head_size, bias=False)
        self.keys = nn.Linear(self.head_size, self.head_size, bias=False)
        self.queries = nn.Linear(self.head_size, self.head_size, bias=False)
        self.fc_out = nn.Linear(embed_dim, embed_dim)

    def forward(self, values, keys, query, mask):
        N, M, L = query.shape[0], values.shape[1], query.shape[1]
        values = self.values(values.reshape(N, M, self.num_heads, self.head_size))
        keys = self.keys(keys.reshape(N, M, self.num_heads, self.head_size))
        query = self.queries(query.reshape(N, L, self.num_heads, self.head_size))
        energy = torch.einsum("nqhd,nkhd->nhqk", query, keys) / self.head_size ** 0.5
        # an empty memory gives a uniform read of zeros
        energy = energy.masked_fill(~mask[:, None, None, :], -1e20)
        attention = torch.softmax(energy, dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", attention, values).reshape(N, L, self.embed_dim)
        return self.fc_out(out), attention


class MemoryBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = MultiHeadMemory(dim, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())

    def forward(self, h, mem, mask):
        a, w = self.attention(mem, mem, h.unsqueeze(1), mask)
        h = self.n1(a.squeeze(1) + h)
        return self.n2(self.fc(h) + h), w


class Agent(nn.Module):
    def __init__(self, obs_dim, n_actions, dim=64, heads=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(obs_dim, dim), nn.ReLU())
        self.block = MemoryBlock(dim, heads)
        self.pi, self.v = nn.Linear(dim, n_actions), nn.Linear(dim, 1)

    def forward(self, obs, mem, mask):
        e = self.enc(obs)
        h, _ = self.block(e, mem, mask)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1), e


def gae(rewards, values, last, gamma=0.99, lam=0.95):
    adv, run = np.zeros(len(rewards)), 0.0
    nxt = last
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * nxt - values[t]
        run = delta + gamma * lam * run
        adv[t], nxt = run, values[t]
    return adv
