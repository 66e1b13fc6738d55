import torch
from torch import nn


class RowWithPairBias(nn.Module):
    """Gated row-wise attention on an alignment, biased by the pair representation.

    msa  (B, S, R, c_m), pair (B, R, R, c_z), present (B, S, R) in {0., 1.}, 1 = residue.
    pair[b, i, j] biases how residue i looks at residue j, the same for all S rows.
    A gap is never looked at; in a row that is all gaps the heads read zero.
    """

    def __init__(self, c_m=16, c_z=6, c=5, heads=3):
        super().__init__()
        self.c, self.heads = c, heads
        self.ln_m, self.ln_z = nn.LayerNorm(c_m), nn.LayerNorm(c_z)
        self.q = nn.Linear(c_m, heads * c, bias=False)
        self.k = nn.Linear(c_m, heads * c, bias=False)
        self.v = nn.Linear(c_m, heads * c, bias=False)
        self.g = nn.Linear(c_m, heads * c)
        self.b = nn.Linear(c_z, heads, bias=False)
        self.o = nn.Linear(heads * c, c_m)

    def forward(self, msa, pair, present):
        m, z = self.ln_m(msa), self.ln_z(pair)
        hs = (*m.shape[:-1], self.heads, self.c)
        q, k, v = self.q(m).view(hs), self.k(m).view(hs), self.v(m).view(hs)
        a = torch.einsum("bsihc,bsjhc->bshij", q * self.c ** -0.5, k)
        a = a + self.b(z).permute(0, 3, 1, 2).unsqueeze(1)
        keep = present[:, :, None, None, :] > 0.5
        a = torch.where(keep, a, torch.full_like(a, torch.finfo(a.dtype).min))
        a = a.softmax(-1) * keep
        read = torch.einsum("bshij,bsjhc->bsihc", a, v)
        read = read * torch.sigmoid(self.g(m)).view(hs)
        return self.o(read.flatten(-2))
