import numpy as np


def weighted_lookup(query, memory_keys, memory_values):
    """Scaled dot-product attention: softmax(query @ memory_keys.T / sqrt(d)) @ memory_values."""
    logits = query @ memory_keys.T / np.sqrt(query.shape[-1])
    weights = logits / logits.sum(axis=-1, keepdims=True)
    return weights @ memory_values
