"""Streaming self-attention for sensor data: one sample in, one vector out, the last `window` samples remembered."""
import numpy as np


def relu(x):
    return np.where(x > 0, x, 0)


class RingAttention:
    def __init__(self, d_in, d_model=16, n_heads=2, window=6, rng=None):
        rng = rng or np.random.default_rng(0)
        self.n_heads, self.d_head, self.window = n_heads, d_model // n_heads, window
        init = lambda a, b: rng.uniform(-1, 1, (a, b)) * np.sqrt(3 / a)
        self.w_in = init(d_in, d_model)
        self.w_q, self.w_k, self.w_v, self.w_o = (init(d_model, d_model) for _ in range(4))
        self.decay = np.linspace(0.1, 0.5, n_heads)
        self.reset()

    def reset(self):
        shape = (self.window, self.n_heads, self.d_head)
        self.keys, self.values = np.zeros(shape), np.zeros(shape)
        self.when = np.full(self.window, -1)
        self.t = 0

    def step(self, sample):
        """sample: (d_in,) -> (d_model,)"""
        x = sample @ self.w_in
        q = (x @ self.w_q).reshape(self.n_heads, self.d_head)
        k = (x @ self.w_k).reshape(self.n_heads, self.d_head)
        v = (x @ self.w_v).reshape(self.n_heads, self.d_head)

        slot = self.t % self.window
        self.keys[slot], self.when[slot] = k, self.t

        used = self.when >= 0
        age = self.t - self.when[used]
        logit = np.einsum("hd,shd->hs", q, self.keys[used]) / np.sqrt(self.d_head)
        logit -= self.decay[:, None] * age
        logit -= logit.max(axis=1, keepdims=True)
        w = np.exp(logit)
        w /= w.sum(axis=1, keepdims=True)
        out = np.einsum("hs,shd->hd", w, self.values[used])

        self.values[slot] = v
        self.t += 1
        return x + out.reshape(-1) @ self.w_o

    def run(self, series):
        """series: (time, d_in) -> (time, d_model), from an empty memory"""
        self.reset()
        return np.stack([self.step(s) for s in series])


class AnomalyScore:
    def __init__(self, d_in, seed=0):
        rng = np.random.default_rng(seed)
        self.att = RingAttention(d_in, rng=rng)
        self.w = rng.normal(size=(16, d_in)) * 0.2

    def __call__(self, series):
        guess = relu(self.att.run(series[:-1])) @ self.w
        return ((series[1:] - guess) ** 2).mean(axis=1)


if __name__ == "__main__":
    s = np.sin(np.arange(20)[:, None] * np.array([0.3, 0.5, 1.1]))
    print(AnomalyScore(3)(s).round(3))
