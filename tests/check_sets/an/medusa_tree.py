"""Verification of a draft tree in one forward pass (Medusa / SpecInfer).

The draft is a tree given by parent pointers: parents[i] < i, the root has parent -1.
A node sees the whole committed prefix, its ancestors and itself.
"""
from typing import Dict, List, Tuple

import torch
from torch import Tensor, nn


def ancestor_matrix(parents: List[int]) -> Tensor:
    n = len(parents)
    m = torch.eye(n, dtype=torch.bool)
    for i, p in enumerate(parents):
        if p >= 0:
            m[i] |= m[p]
    return m


def node_depths(parents: List[int]) -> Tensor:
    d = []
    for p in parents:
        d.append(0 if p < 0 else d[p] + 1)
    return torch.tensor(d)


class TreeVerifyAttention(nn.Module):
    def __init__(self, dim: int, heads: int, theta: float = 1e4):
        super().__init__()
        self.heads, self.hd, self.theta = heads, dim // heads, theta
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def _rope(self, x: Tensor, pos: Tensor) -> Tensor:
        half = self.hd // 2
        inv = self.theta ** (-torch.arange(half, device=x.device).float() / half)
        a = pos[:, None].float() * inv
        c, s = a.cos()[:, None], a.sin()[:, None]
        lo, hi = x[..., :half], x[..., half:]
        return torch.cat((lo * c - hi * s, hi * c + lo * s), dim=-1)

    def forward(self, x: Tensor, parents: List[int], past: Dict[str, Tensor]) -> Tuple[Tensor, Dict[str, Tensor]]:
        """x (nodes, dim); past["k"], past["v"] (prefix, heads, hd), keys already rotated."""
        n = x.shape[0]
        P = past["k"].shape[0]
        q, k, v = self.wqkv(x).view(n, 3, self.heads, self.hd).unbind(1)
        pos = P + node_depths(parents).to(x.device)
        q, k = self._rope(q, pos), self._rope(k, pos)
        K, V = torch.cat([past["k"], k]), torch.cat([past["v"], v])
        see = torch.cat([torch.ones(n, P, dtype=torch.bool), ancestor_matrix(parents)], dim=1).to(x.device)
        y = nn.functional.scaled_dot_product_attention(
            q.transpose(0, 1), K.transpose(0, 1), V.transpose(0, 1), attn_mask=see)
        return self.wo(y.transpose(0, 1).reshape(n, -1)), {"k": k, "v": v}


def commit(past: Dict[str, Tensor], fresh: Dict[str, Tensor], path: List[int]) -> Dict[str, Tensor]:
    """Keep only the accepted path of the tree."""
    sel = torch.tensor(path, dtype=torch.long)
    return {n: torch.cat([past[n], fresh[n][sel]]) for n in ("k", "v")}


def longest_match(tree_tokens: List[int], parents: List[int], predicted: List[int]) -> List[int]:
    """Greedy acceptance: a child is accepted when the target model predicts it at its parent."""
    path = [0]
    while True:
        nxt = [i for i, p in enumerate(parents) if p == path[-1] and tree_tokens[i] == predicted[path[-1]]]
        if not nxt:
            return path
        path.append(nxt[0])
