import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def ln(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


class MixerBlock:
    """MLP-Mixer (Tolstikhin et al. 2021): (B, tokens, channels) -> same shape."""

    def __init__(self, tokens=16, channels=24, seed=0):
        r = np.random.default_rng(seed)
        f = lambda a, b: r.normal(0, a ** -0.5, (a, b))
        self.t1, self.t2 = f(tokens, 2 * tokens), f(2 * tokens, tokens)
        self.c1, self.c2 = f(channels, 4 * channels), f(4 * channels, channels)

    def __call__(self, x):
        y = ln(x).transpose(0, 2, 1)
        x = x + (gelu(y @ self.t1) @ self.t2).transpose(0, 2, 1)
        return x + gelu(ln(x) @ self.c1) @ self.c2
