"""Chunked prefill for the code-completion server (functional, no weights)."""
import torch


class KVStore:
    """Growing store of keys and values, each (B, H, P, D)."""

    def __init__(self):
        self.k = None
        self.v = None

    def push(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


def prefill_chunk(q, k, v, store=None):
    """
    Causal attention of one chunk.

    q, k, v : (B, H, n, D) of the n newest tokens
    store   : KVStore with the tokens before them (None: nothing before).
              The new keys and values are pushed to it.
    Returns (B, H, n, D). Token t of the whole text sees tokens 0..t, so the result
    does not depend on how the text was chopped.
    """
    if store is None:
        store = KVStore()
    keys, vals = store.push(k, v)
    n, m = q.size(2), keys.size(2)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, keys) * q.size(3) ** -0.5
    seen = torch.ones(n, m, dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~seen, float("-inf"))
    probs = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.einsum("bhnm,bhmd->bhnd", probs, vals)


def prefill(q, k, v, chunk=4):
    """Run a whole text (B, H, L, D) through prefill_chunk, `chunk` tokens at a time."""
    store = KVStore()
    outs = []
    for s in range(0, q.size(2), chunk):
        e = s + chunk
        outs.append(prefill_chunk(q[:, :, s:e], k[:, :, s:e], v[:, :, s:e], store))
    return torch.cat(outs, dim=2)
