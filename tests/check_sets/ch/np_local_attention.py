"""Local attention in numpy, a reference for testing our C++ kernel."""
import numpy as np


def window_mask(n, window):
    """allowed[i, j] for causal local attention on n positions."""
    i = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    return (j <= i) & (i - j <= window)


def local_attention(q, k, v, window=3):
    """
    Causal attention restricted to a window.

    q, k, v : arrays (heads, n, d)
    window  : size of the window. It includes the position itself, so window=1
              is attention to oneself only and window=3 is oneself and the two
              positions before.

    returns : array (heads, n, d)
    """
    h, n, d = q.shape
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(d)
    scores = np.where(window_mask(n, window), scores, -np.inf)
    scores -= scores.max(axis=-1, keepdims=True)
    p = np.exp(scores)
    p /= p.sum(axis=-1, keepdims=True)
    return p @ v


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    q, k, v = rng.standard_normal((3, 2, 8, 4))
    np.set_printoptions(precision=3, suppress=True)
    print(local_attention(q, k, v)[0])
