"""Multi-head latent attention for the help-desk bot, absorbed form.

Per token only the latent c (rank) and one rotated key r (rope_dim), shared by all heads,
are cached.  The up-projection of the keys is absorbed in the query and that of the values
is applied after the weighted sum.
"""
import torch
from torch import nn


def rope_pairs(x, pos, theta=10000.0):
    """Interleaved pairs (0,1), (2,3) ... x [..., T, d], pos [T]."""
    d = x.shape[-1]
    f = theta ** (-torch.arange(0, d, 2, device=x.device) / d)
    a = pos[:, None] * f
    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
    e, o = x[..., 0::2], x[..., 1::2]
    return torch.stack([e * c - o * s, e * s + o * c], -1).flatten(-2)


class LatentAttention(nn.Module):
    """forward(x [B, T, D], cache) -> (y, cache).  cache is None or (c [B, S, rank], r [B, S, rope]).

    Causal; the T new tokens stand behind the S cached ones.
    """

    def __init__(self, dim, heads, nope=8, rope=4, rank=12, vdim=8):
        super().__init__()
        self.h, self.nope, self.rope, self.vdim, self.rank = heads, nope, rope, vdim, rank
        self.wq = nn.Linear(dim, heads * (nope + rope), bias=False)
        self.down = nn.Linear(dim, rank + rope, bias=False)
        self.norm = nn.LayerNorm(rank)
        self.uk = nn.Parameter(torch.randn(heads, nope, rank) * rank ** -0.5)
        self.uv = nn.Parameter(torch.randn(heads, vdim, rank) * rank ** -0.5)
        self.wo = nn.Linear(heads * vdim, dim, bias=False)
        self.scale = (nope + rope) ** -0.5

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        pos = torch.arange(past, past + T, device=x.device)
        q = self.wq(x).view(B, T, self.h, -1).transpose(1, 2)
        qn, qr = q.split([self.nope, self.rope], -1)
        qr = rope_pairs(qr, pos)
        c, r = self.down(x).split([self.rank, self.rope], -1)
        c, r = self.norm(c), rope_pairs(r, pos)
        if cache is not None:
            c, r = torch.cat([cache[0], c], 1), torch.cat([cache[1], r], 1)
        qc = torch.einsum("bhtn,hnr->bhtr", qn, self.uk)
        s = torch.einsum("bhtr,bsr->bhts", qc, c) + torch.einsum("bhtp,bsp->bhts", qr, r)
        future = torch.arange(c.shape[1], device=x.device)[None, :] > pos[:, None]
        w = (s * self.scale).masked_fill(future, float("-inf")).float().softmax(-1).to(x.dtype)
        y = torch.einsum("bhts,bsr->bhtr", w, c)
        y = torch.einsum("bhtr,hvr->bthv", y, self.uv)
        return self.wo(y.reshape(B, T, -1)), (c, r)


if __name__ == "__main__":
    m = LatentAttention(16, 2)
    y, c = m(torch.randn(1, 5, 16))
    print(y.shape, m(torch.randn(1, 1, 16), c)[0].shape)
