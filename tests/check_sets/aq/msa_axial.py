"""Axial layers for aligned sequences, [rows, cols, batch, channels] as in the sequence models."""
import torch
import torch.nn as nn

ALPHABET = "-ACDEFGHIKLMNPQRSTVWY"


def encode(alignment):
    """List of equally long strings to [rows, cols] indices."""
    lut = {c: i for i, c in enumerate(ALPHABET)}
    return torch.tensor([[lut.get(c, 0) for c in row] for row in alignment])


class TiedRowAttention(nn.Module):
    """Row attention whose map is shared by all rows of the alignment.

    The logits of the rows are summed before the softmax, so that the scale is
    1 / sqrt(d * R) rather than 1 / sqrt(d).  pad_cols is [batch, cols] and is
    True at padded columns, which take no weight (no alignment is all padding).
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def align_scaling(self, rows):
        return (self.d * rows) ** -0.5

    def forward(self, x, pad_cols=None):
        R, C, B, D = x.shape
        shape = (R, C, B, self.heads, self.d)
        q = self.wq(x).view(shape) * self.align_scaling(R)
        k = self.wk(x).view(shape)
        v = self.wv(x).view(shape)
        logits = torch.einsum("rinhd,rjnhd->hnij", q, k)
        if pad_cols is not None:
            logits = logits.masked_fill(pad_cols[None, :, None, :], float("-inf"))
        probs = torch.softmax(logits, dim=-1)
        if pad_cols is not None:
            probs = probs.masked_fill(pad_cols[None, :, None, :], 0.0)
        ctx = torch.einsum("hnij,rjnhd->rinhd", probs, v)
        return self.wo(ctx.reshape(R, C, B, D)), probs


def apc(x):
    """Average product correction of symmetrised maps, [..., L, L]."""
    a1 = x.sum(-1, keepdim=True)
    a2 = x.sum(-2, keepdim=True)
    a12 = x.sum((-1, -2), keepdim=True)
    return x - a1 * a2 / a12


def contacts(probs, regression):
    sym = probs + probs.transpose(-1, -2)
    feats = apc(sym).permute(1, 2, 3, 0)
    return torch.sigmoid(regression(feats)).squeeze(-1)
