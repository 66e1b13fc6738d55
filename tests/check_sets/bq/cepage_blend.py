# Assemblage helper: which casks go together?   (notebook exported to .py)
#
# Each cask has an analysis (pH, TA, free SO2, alcohol, tannin, anthocyanins ...).
# The blend vector of a cask = attention over all casks of the cellar.

# %%
import numpy as np

rng = np.random.RandomState(1855)

COLS = ['pH', 'TA', 'free_SO2', 'alc', 'tannin', 'antho', 'VA', 'RS']
TYPICAL = np.array([3.5, 5.6, 28.0, 13.2, 2.1, 480.0, 0.45, 1.9])
SPREAD = np.array([0.15, 0.7, 8.0, 0.9, 0.6, 140.0, 0.12, 0.8])


def molecular_so2(free, ph):
    return free / (1 + 10 ** (ph - 1.81))


def standardise(casks):
    return (casks - TYPICAL) / SPREAD


# %%
def stable_softmax(x):
    """softmax of the last axis; the maximum is taken off so that exp cannot overflow"""
    return np.exp(x - x.max(axis=-1, keepdims=True)) / np.sum(np.exp(x), axis=-1, keepdims=True)


def cellar_attention(Q, K, V, available=None):
    """
    Q: (..., n, d)   K: (..., m, d)   V: (..., m, e)
    available: (m,) or (n, m), 1 = the cask may be used, 0 = sold; sold casks
               receive no weight
    returns blend (..., n, e), weights (..., n, m) - rows of the weights sum to 1
    """
    d = Q.shape[-1]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(d)
    if available is not None:
        scores = scores * available
    weights = stable_softmax(scores)
    return weights @ V, weights


# %%
class Cellar:
    def __init__(self, n_heads=2, d=4):
        f = len(COLS)
        self.Wq = rng.randn(n_heads, f, d) * 0.4
        self.Wk = rng.randn(n_heads, f, d) * 0.4
        self.Wv = rng.randn(n_heads, f, d) * 0.4
        self.Wo = rng.randn(n_heads, d, f) * 0.4

    def blend(self, casks, sold=()):
        x = standardise(casks)
        available = np.ones(len(x))
        available[list(sold)] = 0
        y, w = cellar_attention(x @ self.Wq, x @ self.Wk, x @ self.Wv, available)
        out = (y @ self.Wo).sum(axis=0)
        return TYPICAL + SPREAD * out, w.mean(axis=0)


def describe(cask):
    words = []
    if molecular_so2(cask[2], cask[0]) < 0.5:
        words.append('unprotected')
    if cask[4] > 2.8:
        words.append('grippy')
    if cask[6] > 0.7:
        words.append('volatile')
    if cask[3] > 14.5:
        words.append('hot')
    return ', '.join(words) or 'sound'


# %%
if __name__ == '__main__':
    casks = TYPICAL + SPREAD * rng.randn(7, len(COLS))
    blends, w = Cellar().blend(casks, sold=[2])
    for c, b, row in zip(casks, blends, w):
        print('%-24s -> %-24s partner %d' % (describe(c), describe(b), row.argmax()))
