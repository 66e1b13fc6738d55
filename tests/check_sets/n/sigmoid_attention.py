import math

import torch


def sigmoid_attention(q, k, v, causal=False):
    """Sigmoid attention (Ramapuram et al. 2024): sigmoid(q k^T / sqrt(d) - log n) v, with no normalisation over the keys.

    q, k, v: (batch, heads, n, d)
    """
    n, d = k.shape[-2:]
    logits = q @ k.transpose(-1, -2) / math.sqrt(d) - math.log(n)
    if causal:
        logits = logits.masked_fill(torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1), float("-inf"))
    return torch.sigmoid(logits) @ v
