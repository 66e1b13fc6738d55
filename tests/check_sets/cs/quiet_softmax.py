import torch


def quiet_attention(query, key, value, keep=None):
    """Scaled dot-product attention with a null key ("softmax one").

    weight_ij = exp(s_ij) / (1 + sum_k exp(s_ik)),   s = query . key / sqrt(d)

    so a row may sum to less than one, and a query that may see nothing gets zeros.
    keep: optional bool, broadcastable to (..., Lq, Lk); True = the key may be seen.
    Inputs are float32 or float64.
    """
    s = torch.einsum("...id,...jd->...ij", query, key) / query.shape[-1] ** 0.5
    if keep is not None:
        s = s.masked_fill(~keep, float("-inf"))
    top = s.amax(dim=-1, keepdim=True).clamp(min=0)
    e = torch.exp(s - top)
    w = e / (torch.exp(-top) + e.sum(dim=-1, keepdim=True))
    return torch.einsum("...ij,...je->...ie", w, value)
