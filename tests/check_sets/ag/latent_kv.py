import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope(x, pos, base=10000.0):
    # x: (..., T, r), half-split pairs (x_i, x_{i+r/2})
    r = x.shape[-1]
    inv = base ** (-torch.arange(r // 2, device=x.device, dtype=torch.float32) * 2 / r)
    ang = pos[:, None].to(torch.float32) * inv
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., : r // 2], x[..., r // 2:]
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


class LatentAttention(nn.Module):
    """
    DeepSeek-V2 style attention. Per token we cache only
        c  : the normalised joint KV latent   (kv_rank numbers)
        kr : one rotary key shared by all heads (d_rope numbers)

    forward() expands the latent into per-head keys / values, decode() never does:
    W_uk is folded into the query and W_uv is applied to the attended latent.
    Both compute the same function.
    """

    def __init__(self, dim, n_heads, d_nope=32, d_rope=16, d_v=32, q_rank=48, kv_rank=40):
        super().__init__()
        self.h, self.dn, self.dr, self.dv = n_heads, d_nope, d_rope, d_v
        self.kv_rank = kv_rank
        self.wdq = nn.Linear(dim, q_rank, bias=False)
        self.qn = RMSNorm(q_rank)
        self.wuq = nn.Linear(q_rank, n_heads * (d_nope + d_rope), bias=False)
        self.wdkv = nn.Linear(dim, kv_rank + d_rope, bias=False)
        self.kvn = RMSNorm(kv_rank)
        self.wuk = nn.Parameter(torch.randn(n_heads, d_nope, kv_rank) * kv_rank ** -0.5)
        self.wuv = nn.Parameter(torch.randn(n_heads, d_v, kv_rank) * kv_rank ** -0.5)
        self.wo = nn.Linear(n_heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_rope) ** -0.5

    def queries(self, x, pos):
        B, T, _ = x.shape
        q = self.wuq(self.qn(self.wdq(x))).view(B, T, self.h, -1).transpose(1, 2)
        qn, qr = q.split([self.dn, self.dr], dim=-1)
        return qn, rope(qr, pos)

    def compress(self, x, pos):
        c, kr = self.wdkv(x).split([self.kv_rank, self.dr], dim=-1)
        return self.kvn(c), rope(kr, pos)

    def forward(self, x):
        B, T, _ = x.shape
        pos = torch.arange(T, device=x.device)
        qn, qr = self.queries(x, pos)
        c, kr = self.compress(x, pos)
        kn = torch.einsum("btr,hdr->bhtd", c, self.wuk)
        v = torch.einsum("btr,hdr->bhtd", c, self.wuv)
        q = torch.cat([qn, qr], dim=-1)
        k = torch.cat([kn, kr.unsqueeze(1).expand(-1, self.h, -1, -1)], dim=-1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return self.wo(o.transpose(1, 2).reshape(B, T, -1))

    @torch.no_grad()
    def decode(self, x, cache):
        """x: (B, t, dim) next tokens; cache: dict, {} at the start, updated here."""
        B, t, _ = x.shape
        past = cache["c"].shape[1] if "c" in cache else 0
        pos = torch.arange(past, past + t, device=x.device)
        qn, qr = self.queries(x, pos)
        c, kr = self.compress(x, pos)
        if past:
            c = torch.cat([cache["c"], c], dim=1)
            kr = torch.cat([cache["kr"], kr], dim=1)
        cache["c"], cache["kr"] = c, kr

        q_lat = torch.einsum("bhtd,hdr->bhtr", qn, self.wuk)
        s = torch.einsum("bhtr,bsr->bhts", q_lat, c) + torch.einsum("bhtd,bsd->bhts", qr, kr)
        s = s * self.scale
        later = torch.arange(past + t, device=x.device)[None, :] > pos[:, None]
        w = torch.softmax(s.float().masked_fill(later, float("-inf")), dim=-1).to(c.dtype)
        o_lat = torch.einsum("bhts,bsr->bhtr", w, c)
        o = torch.einsum("bhtr,hdr->bthd", o_lat, self.wuv)
        return self.wo(o.reshape(B, t, -1))
