import math

import torch
import torch.nn as nn
import torch.nn.functional as F

# pieces of the sprite diffusion UNet. NCHW everywhere.


def t_embed(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
    ang = t.float()[:, None] * freqs[None]
    return torch.cat([ang.cos(), ang.sin()], -1)


class ResBlk(nn.Module):
    def __init__(self, c, temb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, c), nn.GroupNorm(4, c)
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.t = nn.Linear(temb, c)

    def forward(self, x, temb):
        h = self.c1(F.silu(self.n1(x))) + self.t(temb)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class AttnBlk(nn.Module):
    """Self attention over pixels plus cross attention on the class/text tokens, keys concatenated
    (as GLIDE does). num_heads heads; text_len gives the number of real tokens in each row."""

    def __init__(self, c, num_heads, ctx_dim):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.GroupNorm(4, c)
        self.qkv = nn.Conv1d(c, 3 * c, 1)
        self.ctx_kv = nn.Conv1d(ctx_dim, 2 * c, 1)
        self.proj = nn.Conv1d(c, c, 1)

    def forward(self, x, ctx=None, text_len=None):
        b, c, h, w = x.shape
        nh, ch = self.num_heads, c // self.num_heads
        # packed channels are [q of all heads | k of all heads | v of all heads]
        q, k, v = self.qkv(self.norm(x).flatten(2)).chunk(3, dim=1)
        hide = None
        if ctx is not None:
            ek, ev = self.ctx_kv(ctx.transpose(1, 2)).chunk(2, dim=1)
            k, v = torch.cat([ek, k], -1), torch.cat([ev, v], -1)
            if text_len is not None:
                S = ctx.shape[1]
                txt = torch.arange(S, device=x.device)[None] >= text_len[:, None]
                hide = F.pad(txt, (0, h * w), value=False)
        s = 1 / math.sqrt(math.sqrt(ch))
        q = q.reshape(b * nh, ch, -1)
        k = k.reshape(b * nh, ch, -1)
        v = v.reshape(b * nh, ch, -1)
        wgt = torch.einsum("bct,bcs->bts", q * s, k * s)
        if hide is not None:
            wgt = wgt.masked_fill(hide.repeat_interleave(nh, 0).unsqueeze(1), float("-inf"))
        wgt = torch.softmax(wgt.float(), dim=-1).type(wgt.dtype)
        a = torch.einsum("bts,bcs->bct", wgt, v).reshape(b, c, h * w)
        return x + self.proj(a).reshape(b, c, h, w)
