"""Plain NumPy port of a speech encoder-decoder attention."""
import numpy as np


def _norm_exp(x):
    x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


class Luisteraar:
    """Multi-head scaled dot-product attention of tokens (B, T, D) to frames (B, S, D).

    geldig (B, S): 1 for a real frame, 0 for padding; every clip has a real frame.
    """

    def __init__(self, D=12, koppen=3, zaad=0):
        rng = np.random.default_rng(zaad)
        self.koppen = koppen
        self.wq, self.wk, self.wv, self.wo = rng.normal(size=(4, D, D)) / np.sqrt(D)

    def _knip(self, x):
        B, L, D = x.shape
        return x.reshape(B, self.koppen, L, D // self.koppen)

    def __call__(self, tokens, frames, geldig):
        B, T, D = tokens.shape
        q = self._knip(tokens @ self.wq)
        k = self._knip(frames @ self.wk)
        v = self._knip(frames @ self.wv)
        score = np.matmul(q, k.transpose(0, 1, 3, 2)) / q.shape[-1]
        score = score + np.asarray(geldig, dtype=float)[:, None, None, :] * -1e9
        samen = np.matmul(_norm_exp(score), v)
        return samen.transpose(0, 2, 1, 3).reshape(B, T, D) @ self.wo
