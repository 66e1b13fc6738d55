"""Day-ahead wind power: history encoder, weather-driven decoder.

    past     (B, T, F)  measured channels of the last T hours
    weather  (B, S, G)  forecast weather of the S hours to come
    returns  (B, S)     power for each coming hour

The encoder looks at the history in both directions.  The decoder goes through the
coming hours: the output for hour s depends on the whole history and on the weather
of hours 0..s, not on the weather of later hours.  Usual 1/sqrt(head size) logits.
"""
import torch
import torch.nn.functional as F
from torch import nn


def apart(x, heads):
    """(B, L, H*d) -> (B, H, L, d)"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def together(x):
    """(B, H, L, d) -> (B, L, H*d)"""
    return x.transpose(1, 2).flatten(2)


class Look(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width, bias=False)
        self.o = nn.Linear(width, width)

    def forward(self, x, mem=None, causal=False):
        mem = x if mem is None else mem
        k, v = self.kv(mem).chunk(2, dim=-1)
        q, k, v = (apart(t, self.heads) for t in (self.q(x), k, v))
        return self.o(together(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


class Layer(nn.Module):
    def __init__(self, width, heads, decoder):
        super().__init__()
        self.decoder = decoder
        self.self_look = Look(width, heads)
        self.n1 = nn.LayerNorm(width)
        if decoder:
            self.mem_look = Look(width, heads)
            self.n2 = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
        self.n3 = nn.LayerNorm(width)

    def forward(self, x, mem=None):
        x = x + self.self_look(self.n1(x), causal=self.decoder)
        if self.decoder:
            x = x + self.mem_look(self.n2(x), mem)
        return x + self.ff(self.n3(x))


class WindSeq2Seq(nn.Module):
    def __init__(self, f, g, width=48, heads=4, depth=2, horizon=48, history=168):
        super().__init__()
        self.inp, self.wea = nn.Linear(f, width), nn.Linear(g, width)
        self.hour_past = nn.Parameter(torch.randn(history, width) * 0.02)
        self.hour_next = nn.Parameter(torch.randn(horizon, width) * 0.02)
        self.enc = nn.ModuleList(Layer(width, heads, False) for _ in range(depth))
        self.dec = nn.ModuleList(Layer(width, heads, True) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, past, weather):
        m = self.inp(past) + self.hour_past[-past.size(1):]
        for layer in self.enc:
            m = layer(m)
        y = self.wea(weather) + self.hour_next[: weather.size(1)]
        for layer in self.dec:
            y = layer(y, m)
        return self.out(y).squeeze(-1)
