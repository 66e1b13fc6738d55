import torch


def capped_attention(q, k, v, mask, softcap=30.0):
    """mask: additive, 0 where attention is allowed and -inf elsewhere, broadcastable to (B, H, T, S)."""
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) * q.size(-1) ** -0.5
    scores = scores + mask
    scores = softcap * torch.tanh(scores / softcap)
    return torch.einsum("bhts,bhsd->bhtd", scores.softmax(-1), v)
