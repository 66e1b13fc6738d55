"""Tree attention for speculative verification (Medusa / SpecInfer style).

The draft model proposes a token tree.  Node 0 is the root (the last accepted token);
parents[n] is the index of node n's parent, parents[0] == -1, and a parent always comes
before its children.  In one pass the target model evaluates all nodes:

* node n reads the whole cached prefix, its ancestors and itself, nothing else;
* its position id is prefix_len + depth(n), so siblings share a position.
"""
from typing import List, Tuple

import torch
import torch.nn.functional as F


def tree_layout(parents: List[int]) -> Tuple[torch.Tensor, torch.Tensor]:
    """Returns (ancestor mask (N, N) bool with True = readable, depth (N,))."""
    n = len(parents)
    see = torch.eye(n, dtype=torch.bool)
    depth = torch.zeros(n, dtype=torch.long)
    for node, par in enumerate(parents):
        if par >= 0:
            see[node] |= see[par]
            depth[node] = depth[par] + 1
    return see, depth


def rope(x: torch.Tensor, pos: torch.Tensor, base: float = 1e4) -> torch.Tensor:
    """x (B, H, L, d), pos (L,); rotates the pairs (i, i + d/2)."""
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2).float() / d)
    ang = torch.cat([pos[:, None].float() * inv] * 2, dim=-1)
    x1, x2 = x.chunk(2, dim=-1)
    return x * ang.cos() + torch.cat((-x2, x1), dim=-1) * ang.sin()


def verify_tree(q, k, v, past_k, past_v, parents: List[int]) -> torch.Tensor:
    """q, k, v (B, H, N, d): unrotated projections of the N tree nodes.

    past_k, past_v (B, H, P, d): cache, keys already rotated with positions 0..P-1.
    Returns (B, H, N, d).
    """
    see, depth = tree_layout(parents)
    P = past_k.shape[2]
    pos = P + depth
    q, k = rope(q, pos), rope(k, pos)
    prefix = torch.ones(len(parents), P, dtype=torch.bool)
    allowed = torch.cat((prefix, see), dim=1).to(q.device)
    return F.scaled_dot_product_attention(
        q, torch.cat((past_k, k), dim=2), torch.cat((past_v, v), dim=2),
        attn_mask=allowed)


def longest_accepted(parents: List[int], ok: List[bool]) -> List[int]:
    """Deepest root-to-node path all of whose nodes were accepted (ok[0] is True)."""
    best: List[int] = [0]
    for node in range(len(parents)):
        path, cur = [], node
        while cur >= 0 and ok[cur]:
            path.append(cur)
            cur = parents[cur]
        if cur < 0 and len(path) > len(best):
            best = path[::-1]
    return best
