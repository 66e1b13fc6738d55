import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.a = nn.Sequential(nn.GroupNorm(4, ch), nn.SiLU(), nn.Conv2d(ch, ch, 3, padding=1))
        self.e = nn.Linear(emb, 2 * ch)
        self.n = nn.GroupNorm(4, ch)
        self.b = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, emb):
        scale, shift = self.e(F.silu(emb))[:, :, None, None].chunk(2, 1)
        h = self.n(self.a(x)) * (1 + scale) + shift
        return x + self.b(F.silu(h))


class AttnBlock(nn.Module):
    """
    Spatial self attention, optionally also over the tokens of a text encoder,
    whose keys and values are put before those of the image.
    """

    def __init__(self, ch, num_heads=2, ctx_ch=None):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.GroupNorm(4, ch)
        self.qkv = nn.Conv1d(ch, ch * 3, 1)
        self.encoder_kv = nn.Conv1d(ctx_ch, ch * 2, 1) if ctx_ch else None
        self.proj_out = nn.Conv1d(ch, ch, 1)

    def forward(self, x, encoder_out=None):
        b, c, *spatial = x.shape
        flat = x.reshape(b, c, -1)
        qkv = self.qkv(self.norm(flat))
        bs, width, length = qkv.shape
        ch = width // (3 * self.num_heads)
        q, k, v = qkv.reshape(bs * self.num_heads, ch * 3, length).split(ch, dim=1)
        if encoder_out is not None:
            ek, ev = self.encoder_kv(encoder_out).reshape(bs * self.num_heads, ch * 2, -1).split(ch, dim=1)
            k, v = torch.cat([ek, k], dim=-1), torch.cat([ev, v], dim=-1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)  # steadier in half precision
        weight = torch.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = torch.einsum("bts,bcs->bct", weight, v).reshape(bs, -1, length)
        return (flat + self.proj_out(a)).reshape(b, c, *spatial)


class Middle(nn.Module):
    def __init__(self, ch=16, emb=32, ctx=12):
        super().__init__()
        self.emb = emb
        self.r1, self.at, self.r2 = ResBlock(ch, emb), AttnBlock(ch, 4, ctx), ResBlock(ch, emb)

    def forward(self, x, t, text):
        e = timestep_embedding(t, self.emb)
        return self.r2(self.at(self.r1(x, e), text), e)


if __name__ == "__main__":
    torch.manual_seed(0)
    mid = Middle()
    print(mid(torch.randn(2, 16, 6, 5), torch.tensor([3, 900]), torch.randn(2, 12, 7)).abs().mean())
