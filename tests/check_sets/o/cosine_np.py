import numpy as np


def unit(x, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), eps)


def cosine_attention(q, k, v, log_temperature):
    """softmax(exp(log_temperature) * cos(q, k)) v, with a temperature for each head.

    q (B, H, T, D), k (B, H, S, D), v (B, H, S, E), log_temperature (H,)
    """
    sim = np.einsum("bhtd,bhsd->bhts", unit(q), unit(k))
    sim = sim * np.exp(log_temperature)[:, None, None]
    sim = np.exp(sim - sim.max(axis=-1, keepdims=True))
    return np.einsum("bhts,bhse->bhte", sim, v) / sim.sum(axis=-1)[..., None]
