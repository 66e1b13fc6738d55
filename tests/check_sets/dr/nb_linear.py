"""Notebook: "Transformers are RNNs", linear attention in NumPy.

The exponential kernel exp(q.k) of softmax attention is replaced by phi(q).phi(k) with
phi(x) = elu(x) + 1, which is positive. There is no 1/sqrt(d) and no exponential:

    y_i = sum_{j<=i} (phi(q_i).phi(k_j)) v_j / sum_{j<=i} phi(q_i).phi(k_j)

Both sums can be carried along as a state (S, z), so that one step costs O(d*e) whatever
the length of the history.

All arrays: q, k (heads, length, d), v (heads, length, e) -> (heads, length, e).
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class LinearState:
    """Recurrent form. `step` takes q, k (heads, d) and v (heads, e)."""

    def __init__(self, heads, d, e):
        self.S = np.zeros((heads, d, e))
        self.z = np.zeros((heads, d))

    def step(self, q, k, v):
        q, k = phi(q), phi(k)
        self.S += k[:, :, None] * v[:, None, :]
        self.z += k
        num = np.einsum("hd,hde->he", q, self.S)
        den = np.einsum("hd,hd->h", q, self.z)
        return num / den[:, None]


def linear_attention(q, k, v):
    """Parallel form of the same thing, used in training."""
    q, k = phi(q), phi(k)
    w = np.tril(q @ k.transpose(0, 2, 1))
    return (w @ v) / w.sum(-1, keepdims=True)


if __name__ == "__main__":
    r = np.random.default_rng(1)
    q, k, v = r.normal(size=(2, 6, 4)), r.normal(size=(2, 6, 4)), r.normal(size=(2, 6, 3))
    st = LinearState(2, 4, 3)
    steps = np.stack([st.step(q[:, t], k[:, t], v[:, t]) for t in range(6)], 1)
    print(abs(steps - linear_attention(q, k, v)).max())
