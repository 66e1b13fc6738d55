"""Streaming captioner: fixed-size key/value buffers, oldest entry leaves first."""
from typing import NamedTuple

import torch
import torch.nn as nn


class Buffers(NamedTuple):
    k: torch.Tensor        # (B, H, W, d), newest entry last
    v: torch.Tensor        # (B, H, W, d)
    filled: torch.Tensor   # () long


class StreamState(NamedTuple):
    layers: tuple
    t: torch.Tensor


class BufferedAttention(nn.Module):
    """step() takes one frame token and attends to the last `width` tokens incl. itself."""

    def __init__(self, dim, heads, width):
        super().__init__()
        self.heads, self.hd, self.width = heads, dim // heads, width
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def empty(self, batch):
        z = torch.zeros(batch, self.heads, self.width, self.hd)
        return Buffers(z, z.clone(), torch.zeros((), dtype=torch.long))

    def step(self, x, buf: Buffers):
        B = x.shape[0]
        q, k, v = self.qkv(x).view(B, 3, self.heads, self.hd).unbind(1)
        keys = torch.roll(buf.k, -1, dims=2)
        vals = torch.roll(buf.v, -1, dims=1)
        keys[:, :, -1] = k
        vals[:, :, -1] = v
        n = torch.clamp(buf.filled + 1, max=self.width)
        score = torch.einsum("bhd,bhwd->bhw", q, keys) / self.hd ** 0.5
        unused = torch.arange(self.width, device=x.device) < self.width - n
        w = score.masked_fill(unused, float("-inf")).softmax(-1)
        y = torch.einsum("bhw,bhwd->bhd", w, vals).reshape(B, -1)
        return self.out(y), Buffers(keys, vals, n)


class StreamCaptioner(nn.Module):
    def __init__(self, feat, vocab, dim=32, heads=4, width=8, depth=2):
        super().__init__()
        self.inp = nn.Linear(feat, dim)
        self.att = nn.ModuleList(BufferedAttention(dim, heads, width) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
                                for _ in range(depth))
        self.word = nn.Linear(dim, vocab)

    def start(self, batch):
        return StreamState(tuple(a.empty(batch) for a in self.att), torch.zeros((), dtype=torch.long))

    def forward(self, frame, state: StreamState):
        x = self.inp(frame)
        new = []
        for ln, a, f, buf in zip(self.ln, self.att, self.ff, state.layers):
            y, buf = a.step(ln(x), buf)
            x = x + y
            x = x + f(x)
            new.append(buf)
        return self.word(x), StreamState(tuple(new), state.t + 1)


@torch.no_grad()
def caption_stream(model, frames):
    """frames (T, B, feat) -> word ids (T, B)"""
    st = model.start(frames.shape[1])
    out = []
    for f in frames:
        y, st = model(f, st)
        out.append(y.argmax(-1))
    return torch.stack(out)
