"""Self-attention over packed sequences (no padding), fallback without flash-attn.

Several documents are concatenated along one axis.  cu_seqlens = [0, n0, n0+n1, ...]
marks the borders as in the varlen flash-attention interface.  A token reads only
tokens of its own document, at or before itself when causal=True.  Rotary positions
restart from 0 in every document.
"""
import torch
import torch.nn as nn


def document_ids(cu_seqlens, total):
    """(total,) index of the document each token belongs to."""
    idx = torch.arange(total, device=cu_seqlens.device)
    return torch.bucketize(idx, cu_seqlens[1:], right=True)


def positions(cu_seqlens, doc):
    return torch.arange(doc.numel(), device=doc.device) - cu_seqlens[doc]


class PackedAttention(nn.Module):
    def __init__(self, width, heads, rope_base=10000.0, causal=True):
        super().__init__()
        self.heads, self.hd, self.causal = heads, width // heads, causal
        self.Wqkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        inv = rope_base ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        self.register_buffer("inv", inv, persistent=False)

    def _rope(self, t, pos):
        """t (total, heads, hd); adjacent channels form the pairs."""
        ang = torch.outer(pos.float(), self.inv)[:, None]
        c, s = ang.cos(), ang.sin()
        even, odd = t[..., 0::2], t[..., 1::2]
        return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)

    def forward(self, x, cu_seqlens):
        """x (total, width), cu_seqlens (n_docs + 1,) int64, last entry == total."""
        total = x.size(0)
        doc = document_ids(cu_seqlens, total)
        pos = positions(cu_seqlens, doc)
        q, k, v = self.Wqkv(x).view(total, 3, self.heads, self.hd).unbind(1)
        q, k = self._rope(q, pos), self._rope(k, pos)

        s = torch.einsum("ihd,jhd->hij", q, k) * self.hd ** -0.5
        keep = doc[:, None] == doc[None, :]
        if self.causal:
            keep &= pos[:, None] >= pos[None, :]
        s = s.masked_fill(~keep, float("-inf"))     # the diagonal is always kept
        y = torch.einsum("hij,jhd->ihd", s.softmax(-1), v)
        return self.out(y.reshape(total, -1))
