import torch


def cached_attention(q, k, v):
    """Causal attention while decoding with a cache.

    q (B, H, T, D) holds the newest T positions; k, v (B, H, S, D) hold the whole past and the newest, S >= T.
    """
    T, S = q.shape[-2], k.shape[-2]
    allowed = torch.ones(T, S, dtype=torch.bool).tril()
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5)
    scores = torch.where(allowed, scores, torch.tensor(float("-inf"), dtype=scores.dtype))
    return scores.softmax(-1) @ v
