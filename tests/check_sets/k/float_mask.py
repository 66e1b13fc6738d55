import torch


def attn_with_mask(query, key, value, attn_mask=None):
    """attn_mask: boolean (L, S), True means "take part in attention"."""
    scale = query.size(-1) ** -0.5
    weight = query @ key.transpose(-2, -1) * scale
    if attn_mask is not None:
        weight = weight + attn_mask
    weight = torch.softmax(weight, dim=-1)
    return weight @ value
