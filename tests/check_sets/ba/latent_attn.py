import math
import torch
import torch.nn as nn

# Multi-head latent attention, after the DeepSeek-V2 paper (no query compression).
# The cache holds only c_kv [B,S,r] and the shared rotary key k_r [B,S,dr].
# Rotary layout of the checkpoint: interleaved pairs (2i, 2i+1).
DEFAULTS = dict(dim=48, heads=3, nope=8, rope=4, v_dim=10, rank=14, theta=10000.0)


def _interleaved_rope(x, positions, theta):
    # x [..., S, dr] ; positions [S]
    half = x.shape[-1] // 2
    freq = theta ** (-torch.arange(half, dtype=torch.float32) / half)
    phase = positions.float()[:, None] * freq[None]
    c, s = phase.cos().to(x.dtype), phase.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class LatentAttention(nn.Module):
    """Causal. `cache` is a dict that the caller keeps; pass {} for a new text, None to train."""

    def __init__(self, **kw):
        super().__init__()
        c = {**DEFAULTS, **kw}
        self.h, self.dn, self.dr, self.dv, self.r = (c[n] for n in ("heads", "nope", "rope", "v_dim", "rank"))
        self.theta = c["theta"]
        self.wq = nn.Linear(c["dim"], self.h * (self.dn + self.dr), bias=False)
        self.wkv_a = nn.Linear(c["dim"], self.r + self.dr, bias=False)
        self.kv_norm = nn.LayerNorm(self.r)
        self.wkv_b = nn.Linear(self.r, self.h * (self.dn + self.dv), bias=False)
        self.wo = nn.Linear(self.h * self.dv, c["dim"], bias=False)
        self.scale = 1.0 / math.sqrt(self.dn + self.dr)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        past = cache["c"].shape[1] if cache else 0
        pos = torch.arange(past, past + T)
        q = self.wq(x).view(B, T, self.h, self.dn + self.dr).transpose(1, 2)
        q_n, q_r = q.split([self.dn, self.dr], dim=-1)
        q_r = _interleaved_rope(q_r, pos, self.theta)
        c, k_r = self.wkv_a(x).split([self.r, self.dr], dim=-1)
        c = self.kv_norm(c)
        k_r = _interleaved_rope(k_r, pos, self.theta)
        if cache is not None:
            if past:
                c = torch.cat([cache["c"], c], dim=1)
                k_r = torch.cat([cache["k_r"], k_r], dim=1)
            cache["c"], cache["k_r"] = c, k_r
        # absorbed form: W_uk goes to the query side, W_uv after the weighted sum
        w = self.wkv_b.weight.view(self.h, self.dn + self.dv, self.r)
        w_uk, w_uv = w[:, : self.dn], w[:, self.dn :]
        q_c = torch.einsum("bhtn,hnr->bhtr", q_n, w_uk)
        s = torch.einsum("bhtr,bsr->bhts", q_c, c) + torch.einsum("bhte,bse->bhts", q_r, k_r)
        s = s * self.scale
        S = c.shape[1]
        future = torch.arange(S)[None, :] > pos[:, None]
        a = s.masked_fill(future, float("-inf")).softmax(-1)
        ctx = torch.einsum("bhts,bsr->bhtr", a, c)
        out = torch.einsum("bhtr,hvr->bthv", ctx, w_uv)
        return self.wo(out.reshape(B, T, -1))
