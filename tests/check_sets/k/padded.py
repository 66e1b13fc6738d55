import torch


def masked_attention(q, k, v, pad_mask):
    """
    Attention that ignores padding.

    Args:
        q: (N, Lq, E)
        k: (N, Lk, E)
        v: (N, Lk, E)
        pad_mask: (N, Lk) bool, True for padding tokens
    """
    s = (q @ k.transpose(1, 2)) / (k.shape[-1] ** 0.5)
    s = s.masked_fill(~pad_mask.unsqueeze(1), -1e9)
    a = s.softmax(-1)
    return a @ v
