# Multi-head latent attention (DeepSeek-V2 style), the "absorbed" form.
# The cache keeps one compressed vector c_kv and one shared rotary key per token,
# nothing per head.
import torch
from torch import nn


def precompute_freqs_cis(dim: int, end: int, base: float = 10000.0) -> torch.Tensor:
    inv = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end).float(), inv))


def apply_rotary_emb(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    """x [b, s, h, dim]; neighbouring pairs (2i, 2i+1) form one complex number."""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    z = z * freqs_cis.view(1, z.size(1), 1, z.size(-1))
    return torch.view_as_real(z).flatten(3).to(x.dtype)


class LatentCache:
    def __init__(self, batch, max_len, rank, rope_dim):
        self.c = torch.zeros(batch, max_len, rank)
        self.r = torch.zeros(batch, max_len, rope_dim)
        self.length = 0

    def append(self, c, r):
        a, b = self.length, self.length + c.size(1)
        self.c[:, a:b], self.r[:, a:b] = c, r
        self.length = b
        return self.c[:, :b], self.r[:, :b]


class MLA(nn.Module):
    """forward(x, cache=None): x [b, s, dim] holds the s newest tokens; causal over cache + x."""

    def __init__(self, dim=48, n_heads=4, kv_rank=20, nope=12, rope=8, v_dim=10, max_len=128):
        super().__init__()
        self.h, self.rank, self.nope, self.rope, self.v_dim = n_heads, kv_rank, nope, rope, v_dim
        self.wq = nn.Linear(dim, n_heads * (nope + rope), bias=False)
        self.wkv_a = nn.Linear(dim, kv_rank + rope, bias=False)
        self.kv_norm = nn.LayerNorm(kv_rank)
        self.wkv_b = nn.Linear(kv_rank, n_heads * (nope + v_dim), bias=False)
        self.wo = nn.Linear(n_heads * v_dim, dim, bias=False)
        # the two parts of a query are scored together, hence one common scale
        self.softmax_scale = (nope + rope) ** -0.5
        self.register_buffer("freqs_cis", precompute_freqs_cis(rope, max_len), persistent=False)

    def forward(self, x, cache: LatentCache | None = None):
        b, s, _ = x.shape
        start = 0 if cache is None else cache.length
        fc = self.freqs_cis[start:start + s]

        q = self.wq(x).view(b, s, self.h, self.nope + self.rope)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        q_pe = apply_rotary_emb(q_pe, fc)

        c, k_pe = self.wkv_a(x).split([self.rank, self.rope], dim=-1)
        c = self.kv_norm(c)
        k_pe = apply_rotary_emb(k_pe.unsqueeze(2), fc).squeeze(2)
        if cache is not None:
            c, k_pe = cache.append(c, k_pe)

        w = self.wkv_b.weight.view(self.h, self.nope + self.v_dim, self.rank)
        w_k, w_v = w[:, :self.nope], w[:, self.nope:]
        q_abs = torch.einsum("bshd,hdc->bshc", q_nope, w_k)
        scores = torch.einsum("bshc,btc->bsht", q_abs, c)
        scores = (scores + torch.einsum("bshr,btr->bsht", q_pe, k_pe)) * self.softmax_scale
        t = c.size(1)
        row = torch.arange(start, start + s, device=x.device)[:, None]
        future = torch.arange(t, device=x.device)[None, :] > row
        scores = scores.masked_fill(future[None, :, None, :], float("-inf"))
        p = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
        o = torch.einsum("bsht,btc->bshc", p, c)
        o = torch.einsum("bshc,hdc->bshd", o, w_v)
        return self.wo(o.flatten(2))


if __name__ == "__main__":
    m = MLA()
    cache = LatentCache(1, 16, 20, 8)
    print(m(torch.randn(1, 5, 48), cache).shape, cache.length)
