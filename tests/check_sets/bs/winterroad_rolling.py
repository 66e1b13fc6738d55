"""Ice-road telemetry: next-reading model that runs on the truck's tablet.

Rolling key/value store: the truck drives for days, the tablet keeps only the last `span`
readings.  Rotary positions are absolute (the n-th reading since departure), keys are stored
rotated, so nothing has to be recomputed when the store rolls.  A reading sees itself and the
`span - 1` readings before it, no matter whether they arrive one by one or in bursts.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

SENSORS = ["ice_cm", "air_C", "axle_t", "flex_mm", "speed", "wake_hz"]


def rope(x, pos, base=10000.0):
    # GPT-NeoX layout
    d = x.size(-1)
    inv = base ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = pos.float()[:, None] * inv[None]
    cos = torch.cat([ang, ang], -1).cos().to(x.dtype)
    sin = torch.cat([ang, ang], -1).sin().to(x.dtype)
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    return x * cos + torch.cat([-x2, x1], -1) * sin


class RollingAttention(nn.Module):
    def __init__(self, dim, n_heads, span):
        super().__init__()
        self.n_heads, self.hd, self.span = n_heads, dim // n_heads, span
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, store=None):
        """x: [B, T, dim], the newest T readings. store: (k, v) of the call before, or None.
        Returns (y, store)."""
        B, T, _ = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.n_heads, self.hd).permute(2, 0, 3, 1, 4)
        past = 0 if store is None else store[0].size(2)
        pos = torch.arange(past, past + T, device=x.device)
        q, k = rope(q, pos), rope(k, pos)
        if store is not None:
            k = torch.cat([store[0], k], 2)
            v = torch.cat([store[1], v], 2)

        i = torch.arange(past, past + T, device=x.device)[:, None]
        j = torch.arange(past + T, device=x.device)[None, :]
        ok = (j <= i) & (i - j < self.span)
        w = (q @ k.transpose(-2, -1)) / math.sqrt(self.hd)
        w = w.masked_fill(~ok, float("-inf")).softmax(-1)
        y = (w @ v).transpose(1, 2).reshape(B, T, -1)
        return self.wo(y), (k[:, :, -self.span:], v[:, :, -self.span:])


class Block(nn.Module):
    def __init__(self, dim, n_heads, span):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attn = RollingAttention(dim, n_heads, span)
        self.up, self.gate, self.down = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, store):
        y, store = self.attn(self.n1(x), store)
        x = x + y
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), store


class IceRoad(nn.Module):
    def __init__(self, dim=32, n_heads=2, span=8, n_layers=2):
        super().__init__()
        self.inp = nn.Linear(len(SENSORS), dim)
        self.blocks = nn.ModuleList(Block(dim, n_heads, span) for _ in range(n_layers))
        self.out = nn.Linear(dim, len(SENSORS))

    def forward(self, readings, stores=None):
        stores = stores or [None] * len(self.blocks)
        h, new = self.inp(readings), []
        for b, s in zip(self.blocks, stores):
            h, s = b(h, s)
            new.append(s)
        return self.out(h), new


class Tablet:
    """Feeds readings as they come in over the CAN bus and warns about thin ice."""

    def __init__(self, model, min_ice=75.0):
        self.model, self.min_ice, self.stores = model.eval(), min_ice, None

    @torch.inference_mode()
    def feed(self, reading):
        nxt, self.stores = self.model(torch.as_tensor(reading).float().view(1, 1, -1), self.stores)
        return nxt[0, 0, 0].item() < self.min_ice


if __name__ == "__main__":
    torch.manual_seed(0)
    t = Tablet(IceRoad())
    print([t.feed(torch.rand(6)) for _ in range(20)])
