"""Multi-head latent attention (DeepSeek-V2): a compressed key/value cache.

Only the latent c_kv [B, T, r] and the rotated shared key k_pe [B, T, d_rope] are cached.
A prefill followed by single steps must give what one pass over the whole text gives.
"""
import torch
from torch import nn


class YarnFreeRope:
    """Interleaved rotation of pairs (0,1), (2,3), ..."""

    def __init__(self, dim, max_len=512, base=10000.0):
        inv = base ** (-torch.arange(0, dim, 2).float() / dim)
        self.table = torch.polar(torch.ones(max_len, dim // 2), torch.outer(torch.arange(max_len).float(), inv))

    def __call__(self, x, positions):
        """x [B, T, H, dim], positions [T]"""
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        z = z * self.table[positions][None, :, None, :]
        return torch.view_as_real(z).flatten(-2).type_as(x)


class MLA(nn.Module):
    class Cache:
        def __init__(self):
            self.c_kv = self.k_pe = None

        def __len__(self):
            return 0 if self.c_kv is None else self.c_kv.shape[1]

        def update(self, c_kv, k_pe):
            if self.c_kv is not None:
                c_kv = torch.cat([self.c_kv, c_kv], 1)
                k_pe = torch.cat([self.k_pe, k_pe], 1)
            self.c_kv, self.k_pe = c_kv, k_pe
            return c_kv, k_pe

    def __init__(self, dim=64, n_heads=4, kv_rank=24, d_nope=16, d_rope=8, d_v=16, rope=None):
        super().__init__()
        self.h, self.d_nope, self.d_rope, self.d_v = n_heads, d_nope, d_rope, d_v
        self.wq = nn.Linear(dim, n_heads * (d_nope + d_rope), bias=False)
        self.wkv_a = nn.Linear(dim, kv_rank + d_rope, bias=False)
        self.kv_norm = nn.RMSNorm(kv_rank)
        self.wkv_b = nn.Linear(kv_rank, n_heads * (d_nope + d_v), bias=False)
        self.wo = nn.Linear(n_heads * d_v, dim, bias=False)
        self.rope = rope or YarnFreeRope(d_rope)
        self.softmax_scale = (d_nope + d_rope) ** -0.5

    def forward(self, x, cache: "MLA.Cache" = None):
        B, T, _ = x.shape
        start = len(cache) if cache is not None else 0
        q_nope, q_pe = self.wq(x).view(B, T, self.h, -1).split([self.d_nope, self.d_rope], -1)
        c_kv, k_pe = self.wkv_a(x).split([self.kv_norm.normalized_shape[0], self.d_rope], -1)

        q_pe = self.rope(q_pe, torch.arange(T))
        k_pe = self.rope(k_pe[:, :, None], torch.arange(start, start + T))[:, :, 0]
        c_kv = self.kv_norm(c_kv)
        if cache is not None:
            c_kv, k_pe = cache.update(c_kv, k_pe)

        # absorb W_uk into the query and W_uv into the output
        w = self.wkv_b.weight.view(self.h, self.d_nope + self.d_v, -1)
        w_uk, w_uv = w[:, : self.d_nope], w[:, self.d_nope :]
        q_lat = torch.einsum("bthd,hdr->bthr", q_nope, w_uk)
        scores = torch.einsum("bthr,bsr->bhts", q_lat, c_kv) + torch.einsum("bthd,bsd->bhts", q_pe, k_pe)
        scores = scores * self.softmax_scale
        S = c_kv.shape[1]
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        p = scores.masked_fill(future, float("-inf")).softmax(-1, dtype=torch.float32).type_as(x)
        o = torch.einsum("bhts,bsr->bthr", p, c_kv)
        o = torch.einsum("bthr,hdr->bthd", o, w_uv)
        return self.wo(o.flatten(2))


class DenseBlock(nn.Module):
    def __init__(self, dim, hidden, **mla):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attn = MLA(dim, **mla)
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden), nn.Linear(hidden, dim), nn.Linear(dim, hidden)

    def forward(self, x, cache=None):
        x = x + self.attn(self.n1(x), cache)
        y = self.n2(x)
        return x + self.w2(torch.nn.functional.silu(self.w1(y)) * self.w3(y))
