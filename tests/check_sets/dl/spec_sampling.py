"""Speculative sampling: the accept/reject rule of Leviathan et al. (2023), NumPy.

Given the draft model's distributions p and the target model's distributions q, the tokens that
come out are distributed exactly as if they had been drawn from the target.
"""
import numpy as np


def residual(q, p):
    """norm(max(0, q - p)); q, p (V,)."""
    r = np.maximum(q - p, 0.0)
    total = r.sum()
    return q if total == 0.0 else r / total


def speculative_round(drafts, p, q, rng):
    """drafts: (K,) int, the drafted tokens, draft i drawn from p[i].
    p: (K, V), q: (K + 1, V); rows are probabilities.  rng: numpy Generator.
    Returns the list of tokens to emit: the accepted drafts, and one more token (from the
    residual at the first rejected draft, or from q[K] when all were accepted)."""
    out = []
    for i, token in enumerate(drafts):
        if rng.random() * p[i, token] < q[i, token]:
            out.append(int(token))
            continue
        out.append(int(rng.choice(q.shape[1], p=residual(q[i], p[i]))))
        return out
    out.append(int(rng.choice(q.shape[1], p=q[len(drafts)])))
    return out
