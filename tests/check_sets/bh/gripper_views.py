# gripper_views.py
# Pick policy of our robot arm: 3 cameras, each gives a handful of object
# tokens; the gripper state asks "where is the part". Only NumPy at runtime
# (Jetson without torch), weights come from training as an .npz.

import numpy as np

CAMERAS = ("wrist", "left", "overhead")


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def layernorm(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    sd = np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mu) / sd * g + b


class CrossView:
    """Multi-head cross attention, gripper queries x camera tokens.

    params: wq (D, D), wk (D, D), wv (D, D), wo (D, D)
    __call__(grip, tokens, seen)
        grip   (B, Q, D)
        tokens (B, N, D)
        seen   (B, N) bool - False where the detector returned no object;
               every frame has at least one object
    returns (B, Q, D). Each head distributes its own attention over the tokens.
    """

    def __init__(self, params, n_heads):
        self.p = params
        self.n_heads = n_heads
        self.hd = params["wq"].shape[1] // n_heads

    def _heads(self, x, w):
        y = x @ self.p[w]
        return y.reshape(y.shape[0], y.shape[1], self.n_heads, self.hd)

    def __call__(self, grip, tokens, seen=None):
        q = self._heads(grip, "wq")
        k = self._heads(tokens, "wk")
        v = self._heads(tokens, "wv")
        B, Q, H, D = q.shape
        N = k.shape[1]

        s = np.einsum("bqhd,bnhd->bqhn", q, k) / np.sqrt(D)
        if seen is not None:
            s = np.where(seen[:, None, None, :], s, -np.inf)
        s = s.reshape(B, Q, H * N)
        s = s - s.max(axis=-1, keepdims=True)
        a = np.exp(s)
        a = a / a.sum(axis=-1, keepdims=True)
        a = a.reshape(B, Q, H, N)

        o = np.einsum("bqhn,bnhd->bqhd", a, v).reshape(B, Q, H * D)
        return o @ self.p["wo"]


class PickPolicy:
    def __init__(self, weights, n_heads=4):
        self.w = weights
        self.att = CrossView(weights, n_heads)

    def act(self, grip, tokens, seen):
        """-> (B, 4): dx, dy, dz in m and closing command in 0..1"""
        w = self.w
        x = grip + self.att(layernorm(grip, w["g1"], w["b1"]), tokens, seen)
        x = x + gelu(layernorm(x, w["g2"], w["b2"]) @ w["f1"]) @ w["f2"]
        y = x.mean(1) @ w["head"]
        return np.concatenate([0.05 * np.tanh(y[:, :3]), 1 / (1 + np.exp(-y[:, 3:]))], 1)


def fake_weights(D=32, seed=0):
    r = np.random.default_rng(seed)
    w = {n: r.normal(size=(D, D)) / np.sqrt(D) for n in ("wq", "wk", "wv", "wo")}
    w.update(g1=np.ones(D), b1=np.zeros(D), g2=np.ones(D), b2=np.zeros(D),
             f1=r.normal(size=(D, 2 * D)) / np.sqrt(D),
             f2=r.normal(size=(2 * D, D)) / np.sqrt(2 * D),
             head=r.normal(size=(D, 4)) / np.sqrt(D))
    return w


if __name__ == "__main__":
    r = np.random.default_rng(5)
    pol = PickPolicy(fake_weights())
    print(pol.act(r.normal(size=(2, 3, 32)), r.normal(size=(2, 9, 32)), r.random((2, 9)) > 0.2))
