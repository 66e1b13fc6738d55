"""Verification pass of tree-shaped speculative decoding (SpecInfer / Medusa).

The draft model proposes a tree of tokens.  `parents[i]` is the index of the
parent of node i inside the draft, or -1 if it hangs directly on the prefix;
parents come before children.  In one pass every node attends to the whole
cached prefix, to its ancestors in the tree and to itself, never to siblings or
cousins.
"""
from typing import Sequence

import torch
from torch import nn
import torch.nn.functional as F


def ancestor_matrix(parents: Sequence[int]) -> torch.Tensor:
    n = len(parents)
    see = torch.zeros(n, n, dtype=torch.bool)
    for i, p in enumerate(parents):
        if p >= 0:
            see[i] = see[p]
        see[i, i] = True
    return see


class TreeAttention(nn.Module):
    def __init__(self, hidden: int = 32, heads: int = 4, kv_heads: int = 2) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.head_dim = hidden // heads
        self.q = nn.Linear(hidden, heads * self.head_dim, bias=False)
        self.kv = nn.Linear(hidden, 2 * kv_heads * self.head_dim, bias=False)
        self.o = nn.Linear(heads * self.head_dim, hidden, bias=False)

    def project_kv(self, x: torch.Tensor):
        b, t, _ = x.shape
        k, v = self.kv(x).chunk(2, dim=-1)
        shape = (b, t, self.kv_heads, self.head_dim)
        return k.view(shape).transpose(1, 2), v.view(shape).transpose(1, 2)

    def forward(self, draft: torch.Tensor, prefix: torch.Tensor, parents: Sequence[int]):
        """draft [B, N, hidden], prefix [B, P, hidden] -> [B, N, hidden]"""
        b, n, _ = draft.shape
        q = self.q(draft).view(b, n, self.heads, self.head_dim).transpose(1, 2)
        pk, pv = self.project_kv(prefix)
        dk, dv = self.project_kv(draft)
        k = torch.cat((pk, dk), dim=2)
        v = torch.cat((pv, dv), dim=2)

        visible = torch.cat(
            (torch.ones(n, prefix.shape[1], dtype=torch.bool), ancestor_matrix(parents)), dim=1
        ).to(draft.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(b, n, -1))


def accept_longest(draft_tokens, target_tokens, parents):
    """Indices of the longest root-to-node path the target model agrees with.

    target_tokens[i] is the model's own choice *after* node i; target_tokens[-1]
    the one after the prefix.
    """
    ok, depth, best = [], [], -1
    for i, p in enumerate(parents):
        good = draft_tokens[i] == target_tokens[p] and (p < 0 or ok[p])
        ok.append(good)
        depth.append(1 if p < 0 else depth[p] + 1)
        if good and (best < 0 or depth[i] > depth[best]):
            best = i
    path = []
    while best >= 0:
        path.append(best)
        best = parents[best]
    return path[::-1]
