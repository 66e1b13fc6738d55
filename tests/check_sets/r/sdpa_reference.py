import torch


def scaled_dot_product_attention(q, k, v, attn_mask=None):
    """Reference written out by hand: softmax(q k^T / sqrt(d) + attn_mask) v.

    q: (..., L, d)   k: (..., S, d)   v: (..., S, dv)
    attn_mask: float, (L, S) or anything that broadcasts to (..., L, S); 0 keeps a key and -inf removes it.
    """
    scores = torch.matmul(q, k.transpose(-2, -1))
    if attn_mask is not None:
        keep = attn_mask.to(torch.bool)
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, v)
