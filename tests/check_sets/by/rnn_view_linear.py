"""Code for the seminar talk "Transformers are RNNs" (Katharopoulos et al. 2020).

Causal linear attention with the feature map phi(x) = elu(x) + 1:

    y_i = phi(q_i) S_i / (phi(q_i) . z_i),   S_i = sum_{j<=i} phi(k_j) v_j^T,
                                             z_i = sum_{j<=i} phi(k_j).

There is no softmax and no 1/sqrt(d) here, by design.  The state (S, z) has a
fixed size, so a sequence can be continued for ever.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class LinearAttentionCell:
    def __init__(self, weights, n_heads):
        """weights: {"wq": [D, D], "wk": ..., "wv": ..., "wo": ...}"""
        self.w = weights
        self.n_heads = n_heads
        self.d_head = weights["wq"].shape[1] // n_heads

    def initial_state(self, batch):
        h, d = self.n_heads, self.d_head
        return np.zeros((batch, h, d, d)), np.zeros((batch, h, d))

    def step(self, x, state):
        """x: [batch, D] -> ([batch, D], state)"""
        S, z = state
        shape = (x.shape[0], self.n_heads, self.d_head)
        q = phi((x @ self.w["wq"]).reshape(shape))
        k = phi((x @ self.w["wk"]).reshape(shape))
        v = (x @ self.w["wv"]).reshape(shape)
        S = S + k[..., :, None] * v[..., None, :]
        z = z + k
        num = np.einsum("bhk,bhkv->bhv", q, S)
        den = np.einsum("bhk,bhk->bh", q, z)
        y = (num / den[..., None]).reshape(x.shape[0], -1)
        return y @ self.w["wo"], (S, z)

    def __call__(self, xs, state=None):
        """xs: [batch, time, D]"""
        if state is None:
            state = self.initial_state(xs.shape[0])
        ys = []
        for t in range(xs.shape[1]):
            y, state = self.step(xs[:, t], state)
            ys.append(y)
        return np.stack(ys, axis=1), state


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    w = {n: rng.normal(0, 0.3, (12, 12)) for n in ("wq", "wk", "wv", "wo")}
    cell = LinearAttentionCell(w, n_heads=3)
    y, st = cell(rng.normal(size=(2, 6, 12)))
    print(y.shape, st[0].shape)
