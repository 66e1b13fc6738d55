import torch


def two_mask_attention(q, k, v, key_keep, pair_keep):
    """q (B, H, T, D), k and v (B, H, S, D); key_keep (B, S) and pair_keep (B, T, S) bool, True where both allow attention.

    The output is finite for every query, one that may attend to nothing included.
    """
    low = torch.finfo(q.dtype).min
    zero = torch.zeros((), dtype=q.dtype)
    padding = torch.where(key_keep, zero, low)[:, None, None, :]
    pairs = torch.where(pair_keep, zero, low)[:, None]
    bias = padding + pairs
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores + bias, dim=-1) @ v
