from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class MLAArgs:
    dim: int = 64
    n_heads: int = 4
    kv_rank: int = 16
    d_nope: int = 12
    d_rope: int = 8
    d_v: int = 10
    max_batch: int = 4
    max_len: int = 32
    theta: float = 1e4


def precompute(args: MLAArgs) -> Tensor:
    inv = args.theta ** (-torch.arange(0, args.d_rope, 2).float() / args.d_rope)
    ang = torch.outer(torch.arange(args.max_len).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)


def rotate(x: Tensor, cis: Tensor) -> Tensor:
    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    z = z * cis.view(1, z.size(1), 1, z.size(-1))
    return torch.view_as_real(z).flatten(3).to(x.dtype)


class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.g


class MLA(nn.Module):
    """Latent attention; only the compressed kv (and one shared rope key) is cached, wkv_b is absorbed."""

    def __init__(self, args: MLAArgs):
        super().__init__()
        self.a = args
        self.wq = nn.Linear(args.dim, args.n_heads * (args.d_nope + args.d_rope), bias=False)
        self.wkv_a = nn.Linear(args.dim, args.kv_rank + args.d_rope, bias=False)
        self.kv_norm = RMS(args.kv_rank)
        self.wkv_b = nn.Linear(args.kv_rank, args.n_heads * (args.d_nope + args.d_v), bias=False)
        self.wo = nn.Linear(args.n_heads * args.d_v, args.dim, bias=False)
        self.scale = (args.d_nope + args.d_rope) ** -0.5
        self.register_buffer("cis", precompute(args), persistent=False)
        self.register_buffer("c_cache", torch.zeros(args.max_batch, args.max_len, args.kv_rank), persistent=False)
        self.register_buffer("r_cache", torch.zeros(args.max_batch, args.max_len, args.d_rope), persistent=False)

    @torch.no_grad()
    def forward(self, x: Tensor, start_pos: int = 0) -> Tensor:
        a = self.a
        bsz, n, _ = x.shape
        end = start_pos + n
        cis = self.cis[start_pos:end]

        q = self.wq(x).view(bsz, n, a.n_heads, -1)
        q_nope, q_rope = q.split([a.d_nope, a.d_rope], dim=-1)
        q_rope = rotate(q_rope, cis)

        c, r = self.wkv_a(x).split([a.kv_rank, a.d_rope], dim=-1)
        self.c_cache[:bsz, start_pos:end] = self.kv_norm(c)
        self.r_cache[:bsz, start_pos:end] = rotate(r.unsqueeze(2), cis).squeeze(2)
        c, r = self.c_cache[:bsz, :end], self.r_cache[:bsz, :end]

        w = self.wkv_b.weight.view(a.n_heads, a.d_nope + a.d_v, a.kv_rank)
        q_lat = torch.einsum("bshd,hdc->bshc", q_nope, w[:, : a.d_nope])
        s = torch.einsum("bshc,btc->bsht", q_lat, c) + torch.einsum("bshr,btr->bsht", q_rope, r)
        s = s * self.scale
        if n > 1:
            later = torch.arange(end, device=x.device)[None] > torch.arange(start_pos, end, device=x.device)[:, None]
            s = s.masked_fill(later[None, :, None, :], float("-inf"))
        p = F.softmax(s, dim=-1, dtype=torch.float32).type_as(x)
        lat = torch.einsum("bsht,btc->bshc", p, c)
        out = torch.einsum("bshc,hdc->bshd", lat, w[:, -a.d_v :])
        return self.wo(out.flatten(2))


if __name__ == "__main__":
    torch.manual_seed(0)
    m = MLA(MLAArgs())
    x = torch.randn(2, 9, 64)
    whole = m(x)
    parts = torch.cat([m(x[:, :5]), m(x[:, 5:8], 5), m(x[:, 8:], 8)], 1)
    print((whole - parts).abs().max())
