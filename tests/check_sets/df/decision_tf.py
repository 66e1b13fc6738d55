import math
import torch
from torch import nn


class CausalBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))

    def attn(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        w = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-2))
        w = torch.softmax(w, dim=-1)
        return self.c_proj((w @ v).transpose(1, 2).reshape(B, T, C))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class DecisionTransformer(nn.Module):
    """Offline RL as sequence modelling (Chen et al. 2021) with a GPT trunk.

    rtg (B, K, 1), states (B, K, s_dim), actions (B, K, a_dim), steps (B, K) int64.
    Token order is R_1, s_1, a_1, R_2, ...; the action at step t is predicted from s_t and what came before it.
    """

    def __init__(self, s_dim=11, a_dim=3, d=32, h=4, layers=2, max_ep=100):
        super().__init__()
        self.e_r, self.e_s, self.e_a = nn.Linear(1, d), nn.Linear(s_dim, d), nn.Linear(a_dim, d)
        self.e_t = nn.Embedding(max_ep, d)
        self.ln = nn.LayerNorm(d)
        self.blocks = nn.ModuleList(CausalBlock(d, h) for _ in range(layers))
        self.to_a = nn.Sequential(nn.Linear(d, a_dim), nn.Tanh())

    def forward(self, rtg, states, actions, steps):
        B, K, _ = states.shape
        t = self.e_t(steps)
        x = torch.stack([self.e_r(rtg) + t, self.e_s(states) + t, self.e_a(actions) + t], dim=2)
        x = self.ln(x.reshape(B, 3 * K, -1))
        for b in self.blocks:
            x = b(x)
        return self.to_a(x.view(B, K, 3, -1)[:, :, 1])
