"""Speculative decoding with a draft tree: verify every branch in a single forward pass.

Nodes of the tree are given by ``parent`` (parent[i] < i, -1 = hangs on the last accepted token).
A node sees the whole prefix in the cache, its ancestors and itself.
"""
import torch
import torch.nn.functional as F


def ancestors(parent):
    n = len(parent)
    see = torch.eye(n, dtype=torch.bool)
    for i, p in enumerate(parent):
        if p >= 0:
            see[i] |= see[p]
    return see


def depths(parent):
    d = []
    for p in parent:
        d.append(0 if p < 0 else d[p] + 1)
    return torch.tensor(d)


def rope_cis(pos, dh, base=10000.0):
    f = base ** (-torch.arange(0, dh, 2, dtype=torch.float64) / dh)
    a = pos.double()[:, None] * f
    return torch.polar(torch.ones_like(a), a)


def rope(x, cis):
    """Adjacent channels (2i, 2i+1) form the complex number that is turned."""
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * cis).flatten(-2).to(x.dtype)


class Cache:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[-2]

    def extend(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], -2)
        self.v = v if self.v is None else torch.cat([self.v, v], -2)
        return self.k, self.v

    def keep(self, prefix, nodes):
        """After verification: keep the prefix and the accepted path."""
        idx = torch.cat([torch.arange(prefix), prefix + torch.tensor(nodes, dtype=torch.long)])
        self.k, self.v = self.k[..., idx, :], self.v[..., idx, :]


def tree_attention(x, w, cache, parent, n_heads):
    """x [n, D] drafted tokens' hidden states; w: dict of "wq","wk","wv","wo", each [D, D] (x @ w)."""
    n, D = x.shape
    dh = D // n_heads
    past = len(cache)
    cis = rope_cis(past + depths(parent), dh)
    q, k, v = ((x @ w[s]).view(n, n_heads, dh).transpose(0, 1) for s in ("wq", "wk", "wv"))
    q, k = rope(q, cis), rope(k, cis)
    K, V = cache.extend(k, v)
    see = torch.cat([torch.ones(n, past, dtype=torch.bool), ancestors(parent)], dim=1)
    y = F.scaled_dot_product_attention(q[None], K[None], V[None], attn_mask=see)[0]
    return y.transpose(0, 1).reshape(n, D) @ w["wo"]


def accept(draft_tokens, parent, target_logits, root_token):
    """Greedy: walk down while the target's argmax is one of the children."""
    path, want = [], root_token
    at = -1
    while True:
        nxt = [i for i, p in enumerate(parent) if p == at and draft_tokens[i] == want]
        if not nxt:
            return path, want
        at = nxt[0]
        path.append(at)
        want = int(target_logits[at].argmax())
