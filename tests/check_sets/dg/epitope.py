"""Peptide-MHC binding: the peptide reads the receptor, a pair map biases the logits."""
import torch
import torch.nn as nn
from torch import einsum


class PairBiasedRead(nn.Module):
    def __init__(self, c=32, c_pair=8, heads=4):
        super().__init__()
        self.heads = heads
        self.ln_p, self.ln_r, self.ln_z = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c_pair)
        self.q = nn.Linear(c, c, bias=False)
        self.kv = nn.Linear(c, 2 * c, bias=False)
        self.b = nn.Linear(c_pair, heads, bias=False)
        self.g = nn.Linear(c, c)
        self.o = nn.Linear(c, c)

    def forward(self, pep, rec, pair, rec_mask):
        """pep (B, P, c), rec (B, R, c), pair (B, P, R, c_pair), rec_mask (B, R) 1 = residue

        returns (B, P, c)
        """
        h = self.heads
        x = self.ln_p(pep)
        q = self.q(x).unflatten(-1, (h, -1))
        k, v = self.kv(self.ln_r(rec)).chunk(2, dim=-1)
        k, v = k.unflatten(-1, (h, -1)), v.unflatten(-1, (h, -1))
        q = q / q.shape[-1] ** 0.5
        logits = einsum("b i h d, b j h d -> b h i j", q, k)
        logits = logits + self.b(self.ln_z(pair)).permute(0, 3, 1, 2)
        gone = rec_mask[:, None, None, :] == 0
        logits = logits.masked_fill(gone, torch.finfo(logits.dtype).min)
        a = torch.softmax(logits, dim=-1)
        o = einsum("b h i j, b j h d -> b i h d", a, v).flatten(-2)
        return pep + self.o(torch.sigmoid(self.g(x)) * o)


class Binder(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.read = PairBiasedRead(c)
        self.head = nn.Linear(c, 1)

    def forward(self, pep, rec, pair, rec_mask):
        return self.head(self.read(pep, rec, pair, rec_mask).mean(1)).squeeze(-1)
