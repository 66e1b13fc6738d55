import torch


def forecast_attention(q, k, v, attn_bias):
    """Attention core of a demand forecaster.

    q (B, H, Lq, D), k and v (B, H, Lk, D).
    attn_bias (B, 1, Lq, Lk): additive float mask, 0.0 where the key may be used and
    -inf where it may not.  Every query may use at least one key.
    """
    visible = attn_bias.bool()
    scores = torch.matmul(q, k.transpose(-2, -1)) / q.size(-1) ** 0.5
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, v)
