import numpy as np


def unit(a, eps=1e-12):
    return a / np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), eps)


def recipe_match(wanted, pantry, dishes, k=3, tau=0.1):
    """Blend the k dishes whose ingredients point most nearly the same way.

    wanted (Q, D), pantry (N, D), dishes (N, E). Similarity is the cosine, divided by
    the temperature tau. Keys tied with the k-th best are all kept; k > N means all.
    Returns (blend (Q, E), weights (Q, N)).
    """
    cos = unit(wanted) @ unit(pantry).T
    k = min(k, cos.shape[1])
    kth = np.partition(cos, -k, axis=1)[:, -k][:, None]
    logits = np.where(cos >= kth, cos / tau, -np.inf)
    logits = logits - logits.max(axis=1, keepdims=True)
    w = np.exp(logits)
    w = w / w.sum(axis=1, keepdims=True)
    return w @ dishes, w
