import numpy as np


def stable_softmax(scores):
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return np.exp(shifted) / np.exp(scores).sum(axis=-1, keepdims=True)


class SpectrogramAttention:
    """Single-head self-attention over the frames of a spectrogram (frames, bins)."""

    def __init__(self, bins, size, seed=0):
        rng = np.random.default_rng(seed)
        self.Wq = rng.normal(size=(bins, size)) / np.sqrt(bins)
        self.Wk = rng.normal(size=(bins, size)) / np.sqrt(bins)
        self.Wv = rng.normal(size=(bins, size)) / np.sqrt(bins)
        self.size = size

    def __call__(self, spec):
        Q, K, V = spec @ self.Wq, spec @ self.Wk, spec @ self.Wv
        weights = stable_softmax(Q @ K.T / np.sqrt(self.size))
        return weights @ V
