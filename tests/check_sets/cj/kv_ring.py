"""Multi-query attention with a growing cache for the on-device dictation model."""
import torch
import torch.nn as nn


class DictationMQA(nn.Module):
    """One key/value head, many query heads. Causal.

    step(x, cache): x (B, n, dim), cache None or {"k", "v"} with (B, past, head_dim)
    each, oldest frame first. Returns the output and the cache with the n new
    frames appended. n calls of one frame and one call of n frames agree.
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, self.head_dim, bias=False)
        self.to_v = nn.Linear(dim, self.head_dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def append(self, cache, k, v):
        if cache is None:
            return {"k": k, "v": v}
        return {
            "k": torch.cat((cache["k"], k), dim=1),
            "v": torch.cat((v, cache["v"]), dim=1),
        }

    def step(self, x, cache=None):
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.heads, self.head_dim) / self.head_dim**0.5
        cache = self.append(cache, self.to_k(x), self.to_v(x))
        k, v = cache["k"], cache["v"]
        past = k.size(1) - n

        logits = torch.einsum("bqhd,bkd->bhqk", q, k)
        later = torch.arange(past + n, device=x.device)[None, :] > torch.arange(
            past, past + n, device=x.device
        )[:, None]
        logits = logits.masked_fill(later, -torch.inf)
        out = torch.einsum("bhqk,bkd->bqhd", logits.softmax(dim=-1), v)
        return self.to_out(out.reshape(b, n, -1)), cache

    def forward(self, x, cache=None):
        return self.step(x, cache)
