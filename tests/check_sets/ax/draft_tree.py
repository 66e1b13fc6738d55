"""Verification of a tree of draft tokens in one forward pass.

The draft model proposes a tree.  Node n has a parent ``parents[n]`` (-1: child of the
last committed token) with parents[n] < n.  A node sees every committed token, its
ancestors and itself; siblings are invisible.  Its position is
``committed + depth`` with depth 0 for children of the last committed token.
"""
from typing import List, Optional, Tuple

import torch
import torch.nn as nn


def tree_depth(parents: List[int]) -> List[int]:
    depth = []
    for p in parents:
        depth.append(0 if p < 0 else depth[p] + 1)
    return depth


def tree_visible(parents: List[int]) -> torch.Tensor:
    """bool [n, n], [i, j] True = node i may look at node j"""
    n = len(parents)
    see = torch.eye(n, dtype=torch.bool)
    for i, p in enumerate(parents):
        if p >= 0:
            see[i] |= see[p]
    return see


def rotate(x, pos, base=10000.0):
    """NeoX style (halves); x [B, H, T, D], pos [T]"""
    half = x.size(-1) // 2
    inv = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos.to(torch.float32)[:, None] * inv
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class TreeAttention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, heads * self.d, bias=False)
        self.k = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.v = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.o = nn.Linear(heads * self.d, dim, bias=False)
        self.cache: Optional[Tuple[torch.Tensor, torch.Tensor]] = None
        self.committed = 0

    def reset(self):
        self.cache, self.committed = None, 0

    def forward(self, x: torch.Tensor, parents: Optional[List[int]] = None) -> torch.Tensor:
        """x [1, T, dim].  parents None: T committed tokens in a chain (prompt); else a draft tree."""
        b, t, _ = x.shape
        done = self.committed
        if parents is None:
            pos = done + torch.arange(t, device=x.device)
            local = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        else:
            pos = done + torch.tensor(tree_depth(parents), device=x.device)
            local = tree_visible(parents).to(x.device)

        q = rotate(self.q(x).view(b, t, self.heads, self.d).transpose(1, 2), pos)
        k = rotate(self.k(x).view(b, t, self.kv_heads, self.d).transpose(1, 2), pos)
        v = self.v(x).view(b, t, self.kv_heads, self.d).transpose(1, 2)
        if self.cache is not None:
            k = torch.cat([self.cache[0][:, :, :done], k], dim=2)
            v = torch.cat([self.cache[1][:, :, :done], v], dim=2)
        self.cache = (k, v)
        if parents is None:
            self.committed = done + t

        see = torch.cat([local.new_ones(t, done), local], dim=1)
        g = self.heads // self.kv_heads
        s = torch.einsum("bhgqd,bhkd->bhgqk", q.unflatten(1, (self.kv_heads, g)), k) * self.d ** -0.5
        p = s.masked_fill(~see, float("-inf")).softmax(dim=-1)
        y = torch.einsum("bhgqk,bhkd->bhgqd", p, v).flatten(1, 2)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))

    def commit(self, path: List[int]) -> None:
        """Keep the nodes of the accepted path (root first), forget the rest of the tree."""
        k, v = self.cache
        keep = list(range(self.committed)) + [self.committed + n for n in path]
        idx = torch.tensor(keep, device=k.device)
        self.cache = (k.index_select(2, idx), v.index_select(2, idx))
        self.committed += len(path)


def accept_greedy(tokens: List[int], parents: List[int], root_choice: int, choices: List[int]) -> List[int]:
    """Longest path whose tokens are what the target model would have said."""
    path, want, at = [], root_choice, -1
    while True:
        nxt = [n for n, p in enumerate(parents) if p == at and tokens[n] == want]
        if not nxt:
            return path
        at = nxt[0]
        path.append(at)
        want = choices[at]
