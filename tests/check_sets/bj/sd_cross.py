"""Cross attention of the latent denoiser, with the text side precomputed.

The prompt does not change during sampling, so `set_context` projects the text
once; every denoising step only projects the image tokens.  With classifier
free guidance the batch is [uncond, cond] and so is the context.
"""
import torch
from torch import nn


class CrossAttn(nn.Module):
    def __init__(self, dim, ctx_dim, heads=4, head_dim=8):
        super().__init__()
        inner = heads * head_dim
        self.heads = heads
        self.scale = head_dim**-0.5
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_k = nn.Linear(ctx_dim, inner, bias=False)
        self.to_v = nn.Linear(ctx_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, dim)
        self._kv = None
        self._bias = None

    def _fold(self, x):
        b, n, c = x.shape
        x = x.reshape(b, n, self.heads, c // self.heads)
        return x.transpose(1, 2).reshape(b * self.heads, n, -1)

    def set_context(self, ctx, keep=None):
        """ctx [B, S, ctx_dim]; keep bool [B, S], True for real text tokens."""
        self._kv = (self._fold(self.to_k(ctx)), self._fold(self.to_v(ctx)))
        self._bias = None
        if keep is not None:
            bias = torch.zeros(keep.shape, dtype=ctx.dtype, device=ctx.device)
            bias = bias.masked_fill(~keep, torch.finfo(ctx.dtype).min)
            self._bias = bias.repeat_interleave(self.heads, dim=0)[:, None, :]

    def clear_context(self):
        self._kv = self._bias = None

    def forward(self, x):
        """x [B, N, dim] image tokens."""
        if self._kv is None:
            raise RuntimeError("set_context has not been called")
        k, v = self._kv
        q = self._fold(self.to_q(x))
        sim = torch.bmm(q, k.transpose(1, 2)) * self.scale
        if self._bias is not None:
            sim = sim + self._bias
        sim = sim.softmax(dim=-1)
        out = torch.bmm(sim, v)
        out = out.reshape(x.shape[0], self.heads, x.shape[1], -1)
        return self.to_out(out.transpose(1, 2).flatten(2))


class Denoiser(nn.Module):
    def __init__(self, ch=4, dim=32, ctx_dim=16):
        super().__init__()
        self.inp = nn.Conv2d(ch, dim, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.norm = nn.GroupNorm(4, dim)
        self.attn = CrossAttn(dim, ctx_dim)
        self.out = nn.Conv2d(dim, ch, 3, padding=1)

    def forward(self, z, t):
        h = self.inp(z) + self.time(t[:, None])[:, :, None, None]
        b, c, y, x = h.shape
        tok = self.norm(h).flatten(2).transpose(1, 2)
        h = h + self.attn(tok).transpose(1, 2).reshape(b, c, y, x)
        return self.out(torch.nn.functional.silu(h))


@torch.no_grad()
def sample(net, cond, uncond, steps=4, guidance=5.0, size=8):
    net.attn.set_context(torch.cat([uncond, cond]))
    z = torch.randn(cond.shape[0], 4, size, size)
    for i in range(steps):
        t = torch.full((2 * z.shape[0],), 1.0 - i / steps)
        e_u, e_c = net(torch.cat([z, z]), t).chunk(2)
        z = z - (e_u + guidance * (e_c - e_u)) / steps
    net.attn.clear_context()
    return z
