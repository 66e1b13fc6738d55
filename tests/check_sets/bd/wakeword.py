"""Wake-word detector, streaming. Frames arrive one by one (10 ms), attention looks at the last
`span` frames, which live in a ring buffer so that nothing is reallocated on the device."""
import torch
import torch.nn as nn


class RingAttention(nn.Module):
    """forward(): all frames at once, frame t sees t - span + 1 .. t.
    step(): one frame, same numbers as forward().

    Nearness is modelled by a learned bias per head and per age (0 = the current frame).
    """

    def __init__(self, dim, heads, span):
        super().__init__()
        self.heads, self.span, self.dh = heads, span, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.age_bias = nn.Parameter(torch.randn(heads, span) * 0.1)

    def project(self, x):
        return self.qkv(x).unflatten(-1, (3, self.heads, self.dh)).unbind(-3)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.transpose(1, 2) for t in self.project(x))
        age = torch.arange(T)[:, None] - torch.arange(T)[None, :]
        inside = (age >= 0) & (age < self.span)
        s = q @ k.transpose(-1, -2) * self.dh ** -0.5
        s = s + self.age_bias[:, age.clamp(0, self.span - 1)]
        s = s.masked_fill(~inside, float("-inf"))
        y = s.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, C))

    def fresh(self, batch):
        shape = (batch, self.heads, self.span, self.dh)
        return {"k": torch.zeros(shape), "v": torch.zeros(shape), "n": 0}

    @torch.no_grad()
    def step(self, x, st):
        """x [B, C], st from fresh() (updated here) -> [B, C]"""
        q, k, v = self.project(x)
        slot = st["n"] % self.span
        st["k"][:, :, slot] = k
        st["v"][:, :, slot] = v
        st["n"] += 1

        # bring the frames into the order of time, the newest at the end
        shift = st["n"] % self.span if st["n"] > self.span else 0
        n = min(st["n"], self.span)
        keys = st["k"].roll(-shift, dims=2)[:, :, :n]
        vals = st["v"][:, :, :n]
        s = torch.einsum("bhd,bhnd->bhn", q, keys) * self.dh ** -0.5
        s = s + self.age_bias[:, :n].flip(-1)
        y = torch.einsum("bhn,bhnd->bhd", s.softmax(-1), vals)
        return self.out(y.flatten(1))


class WakeWord(nn.Module):
    def __init__(self, mels=40, dim=32, heads=4, span=50, depth=2):
        super().__init__()
        self.inp = nn.Linear(mels, dim)
        self.att = nn.ModuleList([RingAttention(dim, heads, span) for _ in range(depth)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.out = nn.Linear(dim, 1)

    def forward(self, mel):
        x = self.inp(mel)
        for a, n in zip(self.att, self.norm):
            x = x + a(n(x))
        return self.out(x).squeeze(-1).sigmoid()

    def start(self, batch=1):
        return [a.fresh(batch) for a in self.att]

    @torch.no_grad()
    def push(self, frame, states):
        x = self.inp(frame)
        for a, n, s in zip(self.att, self.norm, states):
            x = x + a.step(n(x), s)
        return self.out(x).squeeze(-1).sigmoid()
