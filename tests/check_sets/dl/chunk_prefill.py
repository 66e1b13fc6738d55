"""Chunked prefill: a long prompt goes through the model in chunks, so that the requests
being decoded do not have to wait long.

Every chunk sees all the chunks before it (from the cache) and itself causally, so the chunk
size never changes the result.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerCache:
    """Keys and values of one layer, (B, H, N, d), in a list of chunks."""

    def __init__(self):
        self.k, self.v = [], []

    def extend(self, k, v):
        self.k.append(k)
        self.v.append(v)
        return torch.cat(self.k, dim=2), torch.cat(self.v, dim=2)


class PrefillAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(d_model, 3 * d_model)      # q | k | v
        self.c_proj = nn.Linear(d_model, d_model)

    def forward(self, x, cache):
        """x (B, T, d_model), the next T >= 1 tokens (positions are in x already); cache:
        LayerCache, extended.  Returns (B, T, d_model).  A token attends to itself and to
        all tokens before it, cached or not."""
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (z.view(B, T, self.n_head, -1).transpose(1, 2) for z in (q, k, v))
        k, v = cache.extend(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


@torch.no_grad()
def prefill(attn, prompt, chunk):
    """prompt (B, N, d_model) -> (B, N, d_model) in chunks of `chunk` tokens, and the cache."""
    cache = LayerCache()
    return torch.cat([attn(p, cache) for p in prompt.split(chunk, dim=1)], dim=1), cache
