import numpy as np

_cache = {}


def _weights(q, k):
    key = k.tobytes()
    if key not in _cache:
        s = q @ k.T / np.sqrt(k.shape[1])
        e = np.exp(s - s.max(1, keepdims=True))
        _cache[key] = e / e.sum(1, keepdims=True)
    return _cache[key]


def memo_attention(q, k, v):
    """Attention on matrices (n, d); the weights of former calls are remembered."""
    return _weights(q, k) @ v
