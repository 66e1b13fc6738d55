"""int8 key/value cache for the edge build of the chat server.

Keys and values are quantised symmetrically, one scale per token and kv head, for keys
and for values separately:   x ~ x_int8 * scale,   scale = max|x| / 127
"""
import argparse
import math
import time
from dataclasses import dataclass, fields

import torch
from torch import nn


@dataclass
class ServerConfig:
    hidden: int = 128
    heads: int = 8
    kv_heads: int = 2
    layers: int = 2
    max_tokens: int = 256
    slots: int = 4
    port: int = 8080

    @classmethod
    def from_cli(cls, argv=None):
        ap = argparse.ArgumentParser()
        for f in fields(cls):
            ap.add_argument("--" + f.name.replace("_", "-"), type=int, default=f.default)
        return cls(**vars(ap.parse_args(argv)))


def quantize(x):
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127.0
    return torch.round(x / scale).to(torch.int8), scale


class Int8KVCache(nn.Module):
    """One layer.  A slot serves one conversation and has its own length."""

    def __init__(self, cfg: ServerConfig):
        super().__init__()
        d = cfg.hidden // cfg.heads
        shape = (cfg.slots, cfg.kv_heads, cfg.max_tokens, d)
        for name in ("k", "v"):
            self.register_buffer(f"{name}_int", torch.zeros(shape, dtype=torch.int8), persistent=False)
            self.register_buffer(f"{name}_scale", torch.ones(shape[:-1] + (1,)), persistent=False)

    def write(self, slot, start, k, v):
        """k, v [kv_heads, t, d]"""
        end = start + k.shape[1]
        self.k_int[slot, :, start:end], self.k_scale[slot, :, start:end] = quantize(k)
        self.v_int[slot, :, start:end], self.v_scale[slot, :, start:end] = quantize(v)

    def read(self, slot, end):
        k = self.k_int[slot, :, :end].float() * self.k_scale[slot, :, :end]
        v = self.v_int[slot, :, :end].float() * self.k_scale[slot, :, :end]
        return k, v


class QuantizedAttention(nn.Module):
    def __init__(self, cfg: ServerConfig):
        super().__init__()
        self.cfg = cfg
        self.d = cfg.hidden // cfg.heads
        self.wq = nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        self.wk = nn.Linear(cfg.hidden, cfg.kv_heads * self.d, bias=False)
        self.wv = nn.Linear(cfg.hidden, cfg.kv_heads * self.d, bias=False)
        self.wo = nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        self.cache = Int8KVCache(cfg)

    def forward(self, x, slot, start):
        """x [t, hidden]: tokens start .. start + t - 1 of the conversation in `slot`."""
        c, t = self.cfg, x.shape[0]
        q = self.wq(x).view(t, c.heads, self.d).transpose(0, 1)
        k = self.wk(x).view(t, c.kv_heads, self.d).transpose(0, 1)
        v = self.wv(x).view(t, c.kv_heads, self.d).transpose(0, 1)
        self.cache.write(slot, start, k, v)
        k, v = self.cache.read(slot, start + t)
        rep = c.heads // c.kv_heads
        k = k.repeat_interleave(rep, dim=0)
        v = v.repeat_interleave(rep, dim=0)
        s = torch.matmul(q.float(), k.transpose(-1, -2)) / math.sqrt(self.d)
        future = torch.ones(t, start + t, dtype=torch.bool, device=x.device).triu(start + 1)
        p = torch.softmax(s.masked_fill(future, float("-inf")), dim=-1)
        y = torch.matmul(p, v).to(x.dtype)
        return self.wo(y.transpose(0, 1).reshape(t, c.hidden))


class Worker:
    def __init__(self, cfg: ServerConfig):
        self.cfg = cfg
        self.layers = nn.ModuleList(QuantizedAttention(cfg) for _ in range(cfg.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(cfg.hidden) for _ in range(cfg.layers))
        self.length = [0] * cfg.slots
        self.free = list(range(cfg.slots))

    def open(self):
        slot = self.free.pop()
        self.length[slot] = 0
        return slot

    def close(self, slot):
        self.free.append(slot)

    @torch.no_grad()
    def run(self, slot, x):
        start = self.length[slot]
        if start + x.shape[0] > self.cfg.max_tokens:
            raise RuntimeError("conversation too long")
        for norm, attn in zip(self.norms, self.layers):
            x = x + attn(norm(x), slot, start)
        self.length[slot] = start + x.shape[0]
        return x


def main(argv=None):
    cfg = ServerConfig.from_cli(argv)
    worker = Worker(cfg)
    slot = worker.open()
    t0 = time.time()
    y = worker.run(slot, torch.randn(16, cfg.hidden))
    for _ in range(32):
        y = worker.run(slot, y[-1:])
    print(f"{48 / (time.time() - t0):.0f} tokens/s on port {cfg.port}")


if __name__ == "__main__":
    main()
