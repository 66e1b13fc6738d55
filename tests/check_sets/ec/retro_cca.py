"""Chunked cross-attention of RETRO.

The sequence is cut into chunks of m tokens.  Chunk u (from 0) has retrieved
neighbours E[u] of r tokens in all, found with the *text of chunk u*.  To stay
autoregressive, only the last token of chunk u and the first m - 1 tokens of chunk u+1
may read E[u].  So token t reads E[(t - (m - 1)) // m], and the first m - 1 tokens of
the sequence read nothing: their output is exactly 0 (the block adds it to a residual).
Inside a chunk's neighbours there is no causal order.

h     (B, T, D)         T = U * m
E     (B, U, r, D)      encoded neighbours
e_ok  (B, U, r) bool    True = real neighbour token, at least one per chunk
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChunkedCrossAttention(nn.Module):
    def __init__(self, D, heads, m):
        super().__init__()
        self.heads, self.m = heads, m
        self.q = nn.Linear(D, D, bias=False)
        self.kv = nn.Linear(D, 2 * D, bias=False)
        self.o = nn.Linear(D, D, bias=False)

    def forward(self, h, E, e_ok):
        B, T, D = h.shape
        U, r, m = E.shape[1], E.shape[2], self.m
        assert T == U * m

        # drop the first m-1 tokens, pad the end: row u now holds exactly E[u]'s readers
        x = F.pad(h[:, m - 1:], (0, 0, 0, m - 1)).reshape(B, U, m, D)
        q = self.q(x).view(B, U, m, self.heads, -1)
        k, v = self.kv(E).view(B, U, r, 2, self.heads, -1).unbind(3)

        a = torch.einsum("bumhd,burhd->buhmr", q, k) / q.size(-1) ** 0.5
        a = a.masked_fill(~e_ok[:, :, None, None, :], torch.finfo(a.dtype).min)
        y = torch.einsum("buhmr,burhd->bumhd", a.softmax(-1), v)
        y = self.o(y.reshape(B, U * m, D))

        # undo the shift
        return F.pad(y, (0, 0, m - 1, 0))[:, :T]
