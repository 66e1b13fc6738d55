"""Static-shape decoding for XLA devices: the cache has max_len slots from the beginning and
the graph never changes.

visible (T, max_len): 1 where a query may look at a slot, 0 where not (not yet filled, or
later than the query).
"""
import torch
import torch.nn as nn


class StaticSelfAttention(nn.Module):
    def __init__(self, dim, heads, max_len, batch):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.scaling = self.d ** -0.5
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.register_buffer("ck", torch.zeros(batch, heads, max_len, self.d))
        self.register_buffer("cv", torch.zeros(batch, heads, max_len, self.d))

    @staticmethod
    def visibility(positions, max_len):
        return (torch.arange(max_len)[None, :] <= positions[:, None]).long()

    def forward(self, x, positions):
        """x (B, T, dim); positions (T,) int64, consecutive, continuing those of the last
        call.  The buffers take the new keys and values.  Causal attention over the slots
        0 .. position with the usual 1/sqrt(d) (d per head).  Returns (B, T, dim)."""
        b, t, dim = x.shape
        q = self.q(x) * self.scaling
        q = q.view(b, t, self.heads, self.d).transpose(1, 2)
        k = self.k(x).view(b, t, self.heads, self.d).transpose(1, 2)
        v = self.v(x).view(b, t, self.heads, self.d).transpose(1, 2)
        self.ck.data = self.ck.index_copy(2, positions, k)
        self.cv.data = self.cv.index_copy(2, positions, v)
        visible = self.visibility(positions, self.ck.shape[2])
        logits = torch.einsum("bhtd,bhsd->bhts", q, self.ck) / self.d ** 0.5
        logits = logits + visible.to(logits.dtype)
        probs = logits.softmax(dim=-1)
        y = torch.einsum("bhts,bhsd->bhtd", probs, self.cv)
        return self.out(y.transpose(1, 2).flatten(2))
