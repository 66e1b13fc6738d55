"""Multi-head latent attention (DeepSeek-V2) for inference: only a small latent and one shared
rotary key are cached per token; the up-projections are absorbed into query and output."""
import torch
import torch.nn as nn


def apply_rope(x, positions, theta=10000.0):
    """Interleaved pairs (x0,x1),(x2,x3)... x: (..., L, d), positions: (L,)"""
    d = x.size(-1)
    freq = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = positions[:, None].float() * freq
    cos, sin = ang.cos(), ang.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class LatentKVAttention(nn.Module):
    """Causal. x: (B, L, dim). cache: None or (c_kv, k_rope) of the tokens before x, as returned by
    the preceding call: c_kv (B, P, kv_rank), k_rope (B, P, d_rope).
    Returns y (B, L, dim) and the new cache."""

    def __init__(self, dim=32, n_heads=4, d_nope=8, d_rope=4, d_v=6, kv_rank=12):
        super().__init__()
        self.n_heads, self.d_nope, self.d_rope, self.d_v = n_heads, d_nope, d_rope, d_v
        self.kv_rank = kv_rank
        self.wq = nn.Linear(dim, n_heads * (d_nope + d_rope), bias=False)
        self.wkv_a = nn.Linear(dim, kv_rank + d_rope, bias=False)
        self.kv_norm = nn.RMSNorm(kv_rank)
        self.wkv_b = nn.Linear(kv_rank, n_heads * (d_nope + d_v), bias=False)
        self.wo = nn.Linear(n_heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_rope) ** -0.5

    def forward(self, x, cache=None):
        B, L, _ = x.shape
        past = 0 if cache is None else cache[0].size(1)
        pos = torch.arange(past, past + L, device=x.device)

        q = self.wq(x).view(B, L, self.n_heads, -1).transpose(1, 2)
        q_nope, q_rope = q.split([self.d_nope, self.d_rope], dim=-1)
        q_rope = apply_rope(q_rope, pos)

        c_kv, k_rope = self.wkv_a(x).split([self.kv_rank, self.d_rope], dim=-1)
        c_kv = self.kv_norm(c_kv)
        k_rope = apply_rope(k_rope, pos)
        if cache is not None:
            c_kv = torch.cat([cache[0], c_kv], dim=1)
            k_rope = torch.cat([cache[1], k_rope], dim=1)

        up = self.wkv_b.weight.view(self.n_heads, self.d_nope + self.d_v, self.kv_rank)
        up_k, up_v = up[:, : self.d_nope], up[:, self.d_nope :]
        q_lat = torch.einsum("bhld,hdr->bhlr", q_nope, up_k)
        scores = torch.einsum("bhlr,bsr->bhls", q_lat, c_kv)
        scores = scores + torch.einsum("bhld,bsd->bhls", q_rope, k_rope)
        scores = scores * self.scale

        key_pos = torch.arange(past + L, device=x.device)
        scores = scores.masked_fill(key_pos[None, :] > pos[:, None], float("-inf"))
        probs = scores.softmax(dim=-1)

        lat = torch.einsum("bhls,bsr->bhlr", probs, c_kv)
        out = torch.einsum("bhlr,hvr->blhv", lat, up_v).reshape(B, L, -1)
        return self.wo(out), (c_kv, k_rope)
