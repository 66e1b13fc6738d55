"""Return-conditioned policy for a harbour crane (decision transformer).

rtg   (B, T, 1)   return to go
obs   (B, T, O)   sensors
act   (B, T, A)   commands that were sent
real  (B, T) bool True = real step. Short episodes are padded on the LEFT.

The three streams are interleaved as r0 s0 a0 r1 s1 a1 ...; a token attends to
itself and to earlier tokens which belong to real steps.  (A padded token looks
at itself and earlier real tokens; what it yields is ignored.)
The command for step t is read at the s_t token: it may depend on rtg[:t+1],
obs[:t+1] and act[:t] only.  Returns (B, T, A).
"""
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, blocked):
        y = self.n1(x)
        x = x + self.att(y, y, y, attn_mask=blocked, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class CranePolicy(nn.Module):
    def __init__(self, n_obs, n_act, d=24, heads=3, depth=2, max_t=32):
        super().__init__()
        self.heads = heads
        self.e_r, self.e_s, self.e_a = nn.Linear(1, d), nn.Linear(n_obs, d), nn.Linear(n_act, d)
        self.time = nn.Embedding(max_t, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, n_act), nn.Tanh())

    def forward(self, rtg, obs, act, real):
        B, T, _ = obs.shape
        te = self.time(torch.arange(T, device=obs.device))
        toks = torch.stack([self.e_r(rtg) + te, self.e_s(obs) + te, self.e_a(act) + te], dim=2)
        x = toks.reshape(B, 3 * T, -1)

        L = 3 * T
        later = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        fake = ~real.repeat_interleave(3, dim=1)                      # (B, L)
        own = torch.eye(L, dtype=torch.bool, device=x.device)
        blocked = later | (fake[:, None, :] & ~own)                   # (B, L, L), True = may not look
        blocked = blocked.repeat_interleave(self.heads, dim=0)        # what nn.MultiheadAttention wants

        for b in self.blocks:
            x = b(x, blocked)
        return self.head(x.view(B, T, 3, -1)[:, :, 1])
