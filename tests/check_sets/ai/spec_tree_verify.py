"""Verification pass for tree-shaped drafts (speculative decoding).

The draft model proposes a tree of tokens. Node i has a parent index parents[i] < i,
or -1 when it hangs directly on the last accepted token. All nodes go through the
target model in ONE pass; a node may see the cached prefix, its ancestors and itself.
"""
from typing import List, Sequence, Tuple

import torch
import torch.nn.functional as F


def ancestors_matrix(parents: Sequence[int]) -> torch.Tensor:
    """[n, n] bool; entry (i, j) is True if j is i or an ancestor of i."""
    n = len(parents)
    m = torch.eye(n, dtype=torch.bool)
    for i, p in enumerate(parents):
        if p >= i:
            raise ValueError("parents must come before their children")
        if p >= 0:
            m[i] |= m[p]
    return m


def depths(parents: Sequence[int]) -> torch.Tensor:
    d: List[int] = []
    for p in parents:
        d.append(0 if p < 0 else d[p] + 1)
    return torch.tensor(d)


def rotate(x, pos, base=10000.0):
    """x [B, H, L, d], pos [L]; pairs (i, i + d/2)"""
    d = x.size(-1)
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    ang = torch.cat([pos.float()[:, None] * inv] * 2, dim=-1)
    a, b = x.chunk(2, dim=-1)
    return x * ang.cos() + torch.cat([-b, a], dim=-1) * ang.sin()


def tree_attention(q, k_draft, v_draft, k_prefix, v_prefix, parents):
    """
    q, k_draft, v_draft   [B, H, n, d]   the draft nodes, not yet rotated
    k_prefix, v_prefix    [B, H, P, d]   from the cache, keys already rotated
    """
    P = k_prefix.size(2)
    n = q.size(2)
    pos = P + depths(parents).to(q.device)
    q, k_draft = rotate(q, pos), rotate(k_draft, pos)
    k = torch.cat([k_prefix, k_draft], dim=2)
    v = torch.cat([v_prefix, v_draft], dim=2)
    tree = ancestors_matrix(parents).to(q.device)
    visible = torch.cat([tree.new_ones(n, P), tree], dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


def accept_greedy(tokens: Sequence[int], parents: Sequence[int], root_logits, node_logits) -> Tuple[List[int], int]:
    """Longest path whose tokens the target model would have taken itself.

    Returns the accepted node indices and the bonus token after them.
    """
    path: List[int] = []
    want = int(root_logits.argmax())
    current = -1
    while True:
        nxt = next((i for i, p in enumerate(parents) if p == current and tokens[i] == want), None)
        if nxt is None:
            return path, want
        path.append(nxt)
        current = nxt
        want = int(node_logits[nxt].argmax())


def compact_cache(k_cache, v_cache, k_draft, v_draft, path):
    """Appends the accepted nodes to the cache."""
    idx = torch.tensor(path, dtype=torch.long, device=k_cache.device)
    return (torch.cat([k_cache, k_draft.index_select(2, idx)], dim=2),
            torch.cat([v_cache, v_draft.index_select(2, idx)], dim=2))


class DraftTree:
    def __init__(self):
        self.tokens: List[int] = []
        self.parents: List[int] = []

    def add(self, token: int, parent: int = -1) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        return len(self.tokens) - 1

    @classmethod
    def from_topk(cls, step_tokens: Sequence[Sequence[int]]):
        """First candidate of each step forms the trunk, the others are leaves."""
        tree, trunk = cls(), -1
        for cands in step_tokens:
            ids = [tree.add(t, trunk) for t in cands]
            trunk = ids[0]
        return tree
