import math
import torch


def softcap(x, cap):
    return cap * torch.tanh(x / cap)


def gemma_attend(query, key, value, keep, cap=5.0, pre_scalar=None):
    """Attention with soft-capped logits, as in Gemma 2.

    query (B, H, T, d), key / value (B, H, S, d)
    keep  (B, T, S) bool, True = may be read; at least one True per row
    pre_scalar: the logits are divided by sqrt(pre_scalar); d if not given
    """
    if pre_scalar is None:
        pre_scalar = query.shape[-1]
    logits = torch.matmul(query / math.sqrt(pre_scalar), key.transpose(-1, -2))
    logits = softcap(logits.masked_fill(~keep[:, None], -math.inf), cap)
    return torch.matmul(torch.softmax(logits.float(), dim=-1).to(value.dtype), value)
