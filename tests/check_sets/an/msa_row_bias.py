"""MSA row attention with pair bias (protein folding trunk)."""
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class PairToBias(nn.Module):
    def __init__(self, c_z, heads):
        super().__init__()
        self.ln = nn.LayerNorm(c_z)
        self.lin = nn.Linear(c_z, heads, bias=False)

    def forward(self, z):
        return self.lin(self.ln(z)).permute(2, 0, 1)


class MSARowAttention(nn.Module):
    """m (S, R, c): S sequences, R residues; attention runs along the residues of each row.

    bias     (heads, R, R)  from the pair representation, computed once, read by all blocks
    row_mask (S, R)         1 = residue, 0 = gap padding
    Every block has a relative position term of its own (clipped at max_rel).
    """

    def __init__(self, c, heads=4, max_rel=8):
        super().__init__()
        self.heads, self.ch, self.max_rel = heads, c // heads, max_rel
        self.ln = nn.LayerNorm(c)
        self.q = nn.Linear(c, c, bias=False)
        self.k = nn.Linear(c, c, bias=False)
        self.v = nn.Linear(c, c, bias=False)
        self.g = nn.Linear(c, c)
        self.o = nn.Linear(c, c)
        self.rel = nn.Embedding(2 * max_rel + 1, heads)

    def relative(self, R, device):
        i = torch.arange(R, device=device)
        off = (i[None, :] - i[:, None]).clamp(-self.max_rel, self.max_rel) + self.max_rel
        return self.rel(off).permute(2, 0, 1)

    def forward(self, m, bias, row_mask):
        S, R, c = m.shape
        x = self.ln(m)
        q, k, v = (p(x).view(S, R, self.heads, self.ch).transpose(1, 2) for p in (self.q, self.k, self.v))
        bias += self.relative(R, m.device)
        logits = q @ k.transpose(2, 3) * self.ch ** -0.5 + bias
        logits = logits.masked_fill(row_mask[:, None, None, :] == 0, -1e9)
        w = torch.softmax(logits, dim=-1)
        y = (w @ v).transpose(1, 2).reshape(S, R, c)
        return m + self.o(torch.sigmoid(self.g(x)) * y)


class Transition(nn.Module):
    def __init__(self, c, n=4):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, n * c), nn.ReLU(), nn.Linear(n * c, c))

    def forward(self, m):
        return m + self.net(m)


class MSATrunk(nn.Module):
    def __init__(self, c=32, c_z=16, heads=4, blocks=3, use_checkpoint=False):
        super().__init__()
        self.bias = PairToBias(c_z, heads)
        self.rows = nn.ModuleList(MSARowAttention(c, heads) for _ in range(blocks))
        self.trans = nn.ModuleList(Transition(c) for _ in range(blocks))
        self.use_checkpoint = use_checkpoint

    def forward(self, msa, pair, row_mask):
        b = self.bias(pair)
        for r, t in zip(self.rows, self.trans):
            if self.use_checkpoint and self.training:
                msa = checkpoint(r, msa, b, row_mask, use_reentrant=False)
            else:
                msa = r(msa, b, row_mask)
            msa = t(msa)
        return msa
