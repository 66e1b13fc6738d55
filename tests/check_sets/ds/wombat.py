"""wombat: the smallest thing that runs a Meta-format Llama layer without torch.

Only NumPy.  Weights come from the original .pth release, that is *not* from the
Hugging Face conversion, so the rotary pairs are the neighbours (0,1), (2,3), ...
"""
import numpy as np


def spin(x, start, theta=10000.0):
    """x (L, n, d): rotate pair p of the token at position start + l by (start + l) * theta^(-2p/d)."""
    L, _, d = x.shape
    ang = np.outer(np.arange(start, start + L), theta ** (-np.arange(0, d, 2) / d))
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * np.exp(1j * ang)[:, None, :]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = z.real, z.imag
    return out


class Wombat:
    """One attention layer with a growing cache, batch of one.

    wq (H*d, D), wk and wv (G*d, D), wo (D, H*d): y = x @ w.T, heads are
    consecutive blocks of d rows.  H is a multiple of G; query heads
    0 .. H/G-1 read kv head 0, the next H/G read kv head 1, and so on.

    nibble(x): x (L, D) are the next L tokens -> (L, D).  Each token sees all tokens
    of earlier calls and those of this call up to itself.
    """

    def __init__(self, wq, wk, wv, wo, H, G):
        self.w = (wq, wk, wv, wo)
        self.H, self.G = H, G
        self.d = wq.shape[0] // H
        self.burrow = []                       # list of (k, v) pieces, keys already rotated

    def seen(self):
        return sum(len(k) for k, _ in self.burrow)

    def nibble(self, x):
        L, H, G, d = len(x), self.H, self.G, self.d
        wq, wk, wv, wo = self.w
        start = self.seen()
        q = spin((x @ wq.T).reshape(L, H, d), start)
        k = spin((x @ wk.T).reshape(L, G, d), start)
        self.burrow.append((k, (x @ wv.T).reshape(L, G, d)))
        K = np.concatenate([a for a, _ in self.burrow])
        V = np.concatenate([b for _, b in self.burrow])

        q = q.reshape(L, G, H // G, d)
        s = np.einsum("lgrd,mgd->grlm", q, K) / np.sqrt(d)
        late = np.arange(len(K))[None, :] > np.arange(start, start + L)[:, None]
        s = np.where(late, -np.inf, s)
        s -= s.max(-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(-1, keepdims=True)
        y = np.einsum("grlm,mgd->lgrd", p, V).reshape(L, H * d)
        return y @ wo.T
