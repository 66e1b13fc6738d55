"""Wide self-attention, after the tutorial "transformers from scratch".

"Wide": each head works on the full embedding of k numbers, so that the projections
go from k to heads*k. Heads are folded into the batch for the product. As in the
tutorial, queries and keys are each divided by the fourth root of k, to save
memory, which is the same as dividing the dot product by sqrt(k).

    x : (b, t, k) -> (b, t, k)
    mask=True: position i may not look at positions after i
"""
import torch
from torch import nn
import torch.nn.functional as F


def mask_(matrices, maskval=float("-inf")):
    """Fills the part above the diagonal in place (the dot products are ours)."""
    h, w = matrices.size(-2), matrices.size(-1)
    i, j = torch.triu_indices(h, w, offset=1)
    matrices[..., i, j] = maskval


class SelfAttentionWide(nn.Module):
    def __init__(self, emb, heads=8, mask=False):
        super().__init__()
        self.emb, self.heads, self.mask = emb, heads, mask
        self.tokeys = nn.Linear(emb, emb * heads, bias=False)
        self.toqueries = nn.Linear(emb, emb * heads, bias=False)
        self.tovalues = nn.Linear(emb, emb * heads, bias=False)
        self.unifyheads = nn.Linear(heads * emb, emb)

    def forward(self, x):
        b, t, k = x.size()
        h = self.heads
        keys = self.tokeys(x).view(b, t, h, k)
        queries = self.toqueries(x).view(b, t, h, k)
        values = self.tovalues(x).view(b, t, h, k)

        keys = keys.transpose(1, 2).reshape(b * h, t, k)
        queries = queries.transpose(1, 2).reshape(b * h, t, k)
        values = values.transpose(1, 2).reshape(b * h, t, k)

        queries = queries / (k ** (1 / 4))
        keys = keys / (k ** (1 / 4))
        dot = torch.bmm(queries, keys.transpose(1, 2))
        if self.mask:
            mask_(dot)
        dot = F.softmax(dot, dim=2)
        out = torch.bmm(dot, values).view(b, h, t, k)
        out = out.transpose(1, 2).reshape(b, t, h * k)
        return self.unifyheads(out)
