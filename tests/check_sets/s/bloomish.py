"""BLOOM-style decoder attention with a growing cache."""
import math

import torch
from torch import nn
from torch.nn import functional as F


def build_slopes(n_head):
    near = 2 ** math.floor(math.log2(n_head))
    base = 2 ** (-(2 ** -(math.log2(near) - 3)))
    s = torch.pow(torch.tensor(base), torch.arange(1, near + 1))
    if near != n_head:
        extra = 2 ** (-(2 ** -(math.log2(2 * near) - 3)))
        s = torch.cat([s, torch.pow(torch.tensor(extra), torch.arange(1, 2 * (n_head - near), 2))])
    return s


class BloomAttention(nn.Module):
    """query_key_value is stored the BLOOM way: for each head its q, then its k, then its v."""

    def __init__(self, hidden, n_head):
        super().__init__()
        self.n_head, self.d = n_head, hidden // n_head
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.register_buffer("slopes", build_slopes(n_head), persistent=False)

    def forward(self, x, keep=None, past=None):
        """keep [B, total] bool (left padding), past = (k, v) each [B, H, S, d]."""
        B, T, _ = x.shape
        q, k, v = (self.query_key_value(x).view(B, T, self.n_head, 3, self.d)
                   .permute(3, 0, 2, 1, 4))
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        S = k.size(2)
        j = torch.arange(S, device=x.device)
        i = j[S - T:]
        # -slope * distance to the query
        bias = self.slopes[:, None, None] * (j[None] - i[:, None])
        ok = j[None, :] <= i[:, None]
        if keep is not None:
            # own position always stays open so that padded rows have something to look at
            ok = (ok & keep[:, None, :]) | (j[None, :] == i[:, None])
            ok = ok[:, None]
        bias = bias.to(q.dtype).masked_fill(~ok, -math.inf)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.dense(y.transpose(1, 2).reshape(B, T, -1)), (k, v)
