"""Tiled softmax attention between lattice sites for the neural quantum state code (NumPy path).

The jastrow factor looks at all pairs of sites; the 128 x 128 lattice needs tiles. Twisted
boundary conditions come in through a per-pair bias.
"""
import numpy as np


def tiles(n, size):
    for a in range(0, n, size):
        yield slice(a, min(a + size, n))


def site_attention(q, k, v, bias=None, occupied=None, tile=64):
    """softmax(q k^T / sqrt(d) + bias) v, tile by tile, with a running maximum.

    q [S, d], k [S', d], v [S', e]; bias [S, S'] or None; occupied bool [S'], False = hole, not
    attended. The first column tile holds at least one occupied site.
    """
    S, d = q.shape
    out = np.zeros((S, v.shape[1]))
    for r in tiles(S, tile):
        qr = q[r] / np.sqrt(d)
        n = qr.shape[0]
        m = np.full((n, 1), -np.inf)
        den = np.zeros((n, 1))
        acc = np.zeros((n, v.shape[1]))
        for c in tiles(k.shape[0], tile):
            s = qr @ k[c].T
            if bias is not None:
                s = s + bias[r, c]
            if occupied is not None:
                s = np.where(occupied[None, c], s, -np.inf)
            m_new = np.maximum(m, s.max(axis=1, keepdims=True))
            p = np.exp(s - m_new)
            den = den * np.exp(m - m_new) + p.sum(axis=1, keepdims=True)
            acc = acc + p @ v[c]
            m = m_new
        out[r] = acc / den
    return out


def square_lattice(L):
    y, x = np.divmod(np.arange(L * L), L)
    return x, y


def periodic_distance(L):
    x, y = square_lattice(L)
    dx = np.abs(x[:, None] - x[None])
    dy = np.abs(y[:, None] - y[None])
    return np.hypot(np.minimum(dx, L - dx), np.minimum(dy, L - dy))


class NeuralJastrow:
    """log psi(sigma) = sum_i f( attention of site i over all sites )"""

    def __init__(self, L, d=16, decay=0.3, seed=0):
        r = np.random.default_rng(seed)
        self.L = L
        self.emb = r.normal(size=(2, d))
        self.Wq, self.Wk, self.Wv = (r.normal(0, d ** -0.5, (d, d)) for _ in range(3))
        self.w1 = r.normal(0, d ** -0.5, (d, 2 * d))
        self.w2 = r.normal(0, (2 * d) ** -0.5, 2 * d)
        self.bias = -decay * periodic_distance(L)

    def log_psi(self, spins, tile=64):
        """spins [L*L] of +-1"""
        h = self.emb[(spins > 0).astype(int)]
        y = h + site_attention(h @ self.Wq, h @ self.Wk, h @ self.Wv, self.bias, tile=tile)
        return float(np.logaddexp(0.0, y @ self.w1).dot(self.w2).sum() / len(spins))


def metropolis(model, spins, n_steps, rng):
    cur = model.log_psi(spins)
    accepted = 0
    for _ in range(n_steps):
        i, j = rng.choice(len(spins), 2, replace=False)
        if spins[i] == spins[j]:
            continue
        spins[i], spins[j] = spins[j], spins[i]
        new = model.log_psi(spins)
        if np.log(rng.random()) < 2 * (new - cur):
            cur, accepted = new, accepted + 1
        else:
            spins[i], spins[j] = spins[j], spins[i]
    return accepted / n_steps


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    L = 12
    spins = rng.permutation(np.repeat([-1, 1], L * L // 2))
    print(metropolis(NeuralJastrow(L), spins, 50, rng))
