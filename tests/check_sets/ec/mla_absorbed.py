"""Multi-head latent attention, "absorbed" form (keys and values are never expanded).

Per token only a latent vector c (r numbers, RMS-normalised) and one rotary key
k_r (d_rope numbers, shared by all heads) are cached.  Written out naively, head h has

    k_h = [ W_uk[h] c ; k_r ],   v_h = c W_uv[h],   q_h = [ q_nope_h ; rope(q_rope_h) ]
    out = softmax(q_h . k_h / sqrt(d_nope + d_rope)) v_h       (causal)

and since q_nope . (W_uk c) = (W_uk^T q_nope) . c the up-projections can be moved to
the query and output sides.  Result is identical up to rounding.

x (B, T, D); cache is None or (latents (B, P, r), rotary keys (B, P, d_rope)) of the
P tokens before x.  Rotary pairs are adjacent channels (2i, 2i+1).
"""
import torch
import torch.nn as nn


def rope_pairs(x, pos, theta=10000.0):
    """x (..., d) with pos broadcastable to x.shape[:-1]."""
    d = x.shape[-1]
    inv = theta ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2))
    ang = pos[..., None].float() * inv
    z = z * torch.polar(torch.ones_like(ang), ang)
    return torch.view_as_real(z).flatten(-2).type_as(x)


class AbsorbedMLA(nn.Module):
    def __init__(self, d_model, n_heads, d_nope, d_rope, d_v, rank):
        super().__init__()
        self.h, self.dn, self.dr, self.rank = n_heads, d_nope, d_rope, rank
        self.scale = (d_nope + d_rope) ** -0.5
        self.wq = nn.Linear(d_model, n_heads * (d_nope + d_rope), bias=False)
        self.wdkv = nn.Linear(d_model, rank + d_rope, bias=False)
        self.c_norm = nn.RMSNorm(rank, eps=1e-6)
        self.w_uk = nn.Parameter(torch.randn(n_heads, d_nope, rank) * rank ** -0.5)
        self.w_uv = nn.Parameter(torch.randn(n_heads, rank, d_v) * rank ** -0.5)
        self.wo = nn.Linear(n_heads * d_v, d_model, bias=False)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        P = 0 if cache is None else cache[0].shape[1]
        pos = torch.arange(P, P + T)

        q_n, q_r = self.wq(x).view(B, T, self.h, -1).split([self.dn, self.dr], dim=-1)
        q_r = rope_pairs(q_r, pos[:, None])
        c, k_r = self.wdkv(x).split([self.rank, self.dr], dim=-1)
        c, k_r = self.c_norm(c), rope_pairs(k_r, pos)
        if cache is not None:
            c = torch.cat((cache[0], c), dim=1)
            k_r = torch.cat((cache[1], k_r), dim=1)

        q_c = torch.einsum("bthn,hnr->bthr", q_n, self.w_uk)
        logits = torch.einsum("bthr,bsr->bhts", q_c, c)
        logits = (logits + torch.einsum("bthe,bse->bhts", q_r, k_r)) * self.scale
        future = torch.arange(P + T)[None, :] > pos[:, None]
        logits = logits.masked_fill(future, float("-inf"))
        p = logits.float().softmax(-1).type_as(x)

        ctx = torch.einsum("bhts,bsr->bthr", p, c)
        out = torch.einsum("bthr,hrv->bthv", ctx, self.w_uv)
        return self.wo(out.flatten(2)), (c, k_r)
