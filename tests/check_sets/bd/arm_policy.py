"""Transformer policy for a 6-DoF arm (behaviour cloning, closed loop at 20 Hz).

Observations come one at a time in deployment, in windows in training, so the
attention keeps its own key/value history between calls of `act`.
"""
import torch
import torch.nn as nn


class RotaryTable:
    """cos/sin with the interleaved (GPT-J) layout: channels 0,1 | 2,3 | ... rotate together."""

    def __init__(self, dim, base=10000.0):
        self.freq = 1.0 / base ** (torch.arange(0, dim, 2).double() / dim)

    def __call__(self, x, start):
        # x [B, T, H, D]
        t = torch.arange(start, start + x.shape[1], dtype=torch.float64, device=x.device)
        ang = torch.outer(t, self.freq.to(x.device)).repeat_interleave(2, dim=-1)
        cos, sin = ang.cos().to(x.dtype)[None, :, None], ang.sin().to(x.dtype)[None, :, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        swapped = torch.stack((-odd, even), dim=-1).flatten(-2)
        return x * cos + swapped * sin


class HistoryAttention(nn.Module):
    """Causal self attention over the episode so far.

    forward(x)            : a whole window, nothing is remembered.
    forward(x, mem=dict)  : `mem` is filled with 'k', 'v' and read on the next call.
    """

    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)
        self.rope = RotaryTable(dim // heads)

    def forward(self, x, mem=None):
        B, T, D = x.shape
        shape = (B, T, self.heads, D // self.heads)
        q, k, v = self.to_q(x).view(shape), self.to_k(x).view(shape), self.to_v(x).view(shape)
        start = 0 if not mem else mem["k"].shape[1]
        q, k = self.rope(q, start), self.rope(k, start)
        if mem is not None:
            if mem:
                k = torch.cat([mem["k"], k], dim=1)
                v = torch.cat([mem["v"], v], dim=1)
            mem["k"], mem["v"] = k, v

        w = torch.einsum("bihd,bjhd->bhij", q, k) * shape[-1] ** -0.5
        S = k.shape[1]
        visible = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        w = w.masked_fill(~visible, torch.finfo(w.dtype).min)
        w = self.drop(w.softmax(-1))
        return self.out(torch.einsum("bhij,bjhd->bihd", w, v).reshape(B, T, D))


class ArmPolicy(nn.Module):
    def __init__(self, obs=32, act=7, dim=64, heads=4, depth=2):
        super().__init__()
        self.inp = nn.Linear(obs, dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict({
                "norm_a": nn.LayerNorm(dim), "attn": HistoryAttention(dim, heads),
                "norm_m": nn.LayerNorm(dim),
                "mlp": nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim)),
            }))
        self.head = nn.Linear(dim, act)

    def forward(self, obs, mems=None):
        x = self.inp(obs)
        for i, l in enumerate(self.layers):
            x = x + l["attn"](l["norm_a"](x), None if mems is None else mems[i])
            x = x + l["mlp"](l["norm_m"](x))
        return self.head(x).tanh()

    def reset(self):
        self._mems = [{} for _ in self.layers]

    @torch.no_grad()
    def act(self, obs):
        """obs [obs_dim] -> action [7]"""
        return self(obs[None, None], self._mems)[0, -1]
