import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.proj = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        y = self.ln1(x)
        b, t, d = y.shape
        q, k, v = (f(y).view(b, t, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class DecisionTransformer(nn.Module):
    """(return, state, action) triples in time order -> the action after each state.

    rtg (B, T, 1), states (B, T, state_dim), actions (B, T, act_dim), timesteps (B, T) int
    """

    def __init__(self, state_dim=5, act_dim=3, d=16, n_layers=2, n_heads=2, max_ep=30):
        super().__init__()
        self.embed_t = nn.Embedding(max_ep, d)
        self.embed_r, self.embed_s, self.embed_a = nn.Linear(1, d), nn.Linear(state_dim, d), nn.Linear(act_dim, d)
        self.ln = nn.LayerNorm(d)
        self.blocks = nn.ModuleList(Block(d, n_heads) for _ in range(n_layers))
        self.predict = nn.Sequential(nn.Linear(d, act_dim), nn.Tanh())

    def forward(self, rtg, states, actions, timesteps):
        when = self.embed_t(timesteps)
        r, s, a = self.embed_r(rtg) + when, self.embed_s(states) + when, self.embed_a(actions) + when
        h = torch.stack((r, s, a), dim=2).flatten(1, 2)
        h = self.ln(h)
        for block in self.blocks:
            h = block(h)
        return self.predict(h.unflatten(1, (-1, 3))[:, :, 1])
