"""Three projections fused into one matmul.

The encoder I inherited had q_proj, k_proj and v_proj (nn.Linear(D, D) each).
I want a single nn.Linear(D, 3 * D).  Row order of the fused weight is head by
head: the d query rows of head 0, its d key rows, its d value rows, then head 1
and so on (what GPT-NeoX calls query_key_value).

Expected: FusedSelfAttention.from_separate(...) gives the very numbers of the
old layer, i.e. softmax(q k^T / sqrt(d)) v per head, heads concatenated, o_proj.
"""
import math

import torch
from torch import nn


class FusedSelfAttention(nn.Module):
    """x: (B, T, D); pad: (B, T) bool, True where the token is padding.

    Padding tokens are never read (their own rows are computed but unused).
    Each sample has at least one token that is not padding.  Returns (B, T, D).
    """

    def __init__(self, D, H):
        super().__init__()
        assert D % H == 0
        self.H, self.d = H, D // H
        self.query_key_value = nn.Linear(D, 3 * D)
        self.o_proj = nn.Linear(D, D)

    @classmethod
    def from_separate(cls, q_proj, k_proj, v_proj, o_proj, H):
        D = q_proj.in_features
        new = cls(D, H)
        d = D // H
        ws = [p.weight.view(H, d, D) for p in (q_proj, k_proj, v_proj)]
        bs = [p.bias.view(H, d) for p in (q_proj, k_proj, v_proj)]
        with torch.no_grad():
            new.query_key_value.weight.copy_(torch.stack(ws, dim=1).reshape(3 * D, D))
            new.query_key_value.bias.copy_(torch.stack(bs, dim=1).reshape(3 * D))
            new.o_proj.load_state_dict(o_proj.state_dict())
        return new

    def forward(self, x, pad=None):
        B, T, D = x.shape
        qkv = self.query_key_value(x)
        qkv = qkv.view(B, T, self.H, 3 * self.d).permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)                     # (B, H, T, d)
        att = q @ k.mT / math.sqrt(q.size(-1))
        if pad is not None:
            att = att.masked_fill(pad[:, None, None, :], float("-inf"))
        att = att.softmax(-1)
        y = torch.einsum("bhts,bhsd->bthd", att, v)
        return self.o_proj(y.flatten(2))
