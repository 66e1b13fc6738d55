"""Pair-biased attention for ribozyme cleavage sites.

Single representation s [B, L, C], pair representation z [B, L, L, Cz].  One triangle-free
stack: the pair track is updated once per recycle, and the attention layers of that recycle all
read the bias that the pair track gave.  Gated like the row attention of AlphaFold 2.
"""
import torch
from torch import nn
import torch.nn.functional as F


class PairTrack(nn.Module):
    """Outer-product update of z and its projection to one bias per head."""

    def __init__(self, c, cz, heads, r=8):
        super().__init__()
        self.left, self.right = nn.Linear(c, r), nn.Linear(c, r)
        self.up = nn.Linear(r * r, cz)
        self.ln = nn.LayerNorm(cz)
        self.to_bias = nn.Linear(cz, heads, bias=False)

    def forward(self, s, z):
        op = torch.einsum("bic,bjd->bijcd", self.left(s), self.right(s)).flatten(-2)
        z = z + self.up(op)
        return z, self.to_bias(self.ln(z)).permute(0, 3, 1, 2).contiguous()


class BiasedRowAttention(nn.Module):
    """
    s       [B, L, C]
    bias    [B, heads, L, L]   from PairTrack, added to the scores; shared by several layers
    keep    [B, L] bool        True = real nucleotide; others are not attended
    """

    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.d = heads, c // heads
        self.ln = nn.LayerNorm(c)
        self.qkv = nn.Linear(c, 3 * c, bias=False)
        self.gate = nn.Linear(c, c)
        self.out = nn.Linear(c, c)
        nn.init.ones_(self.gate.bias)

    def forward(self, s, bias, keep=None):
        B, L, C = s.shape
        x = self.ln(s)
        q, k, v = (t.view(B, L, self.heads, self.d).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if keep is not None:
            bias = bias.masked_fill_(~keep[:, None, None, :], -1e9)
        a = torch.matmul(q, k.transpose(-1, -2)) / self.d ** 0.5 + bias
        a = F.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(1, 2).reshape(B, L, C)
        return self.out(torch.sigmoid(self.gate(x)) * o)


class RibozymeStack(nn.Module):
    def __init__(self, c=48, cz=16, heads=4, layers=3, recycles=2, max_sep=32):
        super().__init__()
        self.base = nn.Embedding(5, c, padding_idx=0)
        self.sep = nn.Embedding(2 * max_sep + 1, cz)
        self.pair = PairTrack(c, cz, heads)
        self.rows = nn.ModuleList(BiasedRowAttention(c, heads) for _ in range(layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 2 * c), nn.ReLU(), nn.Linear(2 * c, c))
            for _ in range(layers)
        )
        self.head = nn.Linear(c, 1)
        self.recycles, self.max_sep = recycles, max_sep

    def forward(self, seq, core=None):
        """seq [B, L], 0 = filler, 1..4 = ACGU -> cleavage logit per nucleotide.

        core [B, L] bool marks the catalytic core: every other layer, from the first, looks
        at the core only, the ones between look at the whole molecule.
        """
        keep = seq > 0
        views = (keep if core is None else keep & core, keep)
        i = torch.arange(seq.shape[1], device=seq.device)
        d = (i[:, None] - i[None]).clamp(-self.max_sep, self.max_sep) + self.max_sep
        s, z = self.base(seq), self.sep(d).expand(len(seq), -1, -1, -1)
        for _ in range(self.recycles):
            z, bias = self.pair(s, z)
            for n, (row, ff) in enumerate(zip(self.rows, self.ff)):
                s = s + row(s, bias, views[n % 2])
                s = s + ff(s)
        return self.head(s).squeeze(-1)


@torch.no_grad()
def knock_out(net, seq, sites, core=None):
    """How much does the prediction change if the nucleotides at `sites` are made unseen?"""
    base = net(seq, core)
    cut = seq.clone()
    cut[:, sites] = 0
    return (net(cut, core) - base).abs().sum(-1)


if __name__ == "__main__":
    torch.manual_seed(1)
    rna = torch.randint(1, 5, (2, 18))
    rna[1, 14:] = 0
    middle = (torch.arange(18) >= 5) & (torch.arange(18) < 12)
    print(knock_out(RibozymeStack(), rna, [3, 4], middle.expand(2, -1)))
