"""Token-tree verification for speculative decoding (SpecInfer / Medusa fashion).

The drafts of several heads form a tree, flattened in an order where a parent always comes
before its children.  parents[i] is the index of node i's parent or -1 when node i hangs
directly on the last accepted token.  All nodes are verified in one pass.
"""
import torch
import torch.nn.functional as F


def ancestor_matrix(parents):
    """Bool (M, M): [i, j] is True when j == i or j is an ancestor of i."""
    m = len(parents)
    a = torch.eye(m, dtype=torch.bool)
    for i, p in enumerate(parents):
        if p >= 0:
            a[i] |= a[p]
    return a


def depths(parents):
    """Depth of every node, 0 for the children of the last accepted token; the caller adds the
    length of the cache to get positions for the rotary embedding."""
    out = []
    for p in parents:
        out.append(0 if p < 0 else out[p] + 1)
    return torch.tensor(out)


def tree_attention(q, k, v, past_k, past_v, parents):
    """q (B, H, M, d); k, v (B, Hkv, M, d) of the tree's nodes, rotated by the caller;
    past_k, past_v (B, Hkv, P, d), the accepted text.  parents: list of M ints.
    Query heads are grouped in blocks: head h uses KV head h // (H // Hkv).

    Every node attends to the whole accepted text, to its ancestors and to itself, never to
    siblings or other branches.  Returns (B, H, M, d), scale 1/sqrt(d).
    """
    m, p = q.shape[2], past_k.shape[2]
    mask = torch.cat([torch.ones(m, p, dtype=torch.bool), ancestor_matrix(parents)], dim=1)
    keys = torch.cat([past_k, k], dim=2)
    vals = torch.cat([past_v, v], dim=2)
    return F.scaled_dot_product_attention(q, keys, vals, attn_mask=mask, enable_gqa=True)
