"""Matching quilt blocks between two photographs of the same quilt (before / after washing).

Every block has a colour-texture descriptor; the two sets are matched by entropic
optimal transport (Sinkhorn in the log domain) with a dustbin for blocks that were
cut off or replaced.
"""
import numpy as np


def logsumexp(x, axis):
    m = x.max(axis=axis, keepdims=True)
    return np.squeeze(m, axis) + np.log(np.exp(x - m).sum(axis=axis))


def descriptor(patch):
    """patch: [h, w, 3] -> 12 numbers: mean, spread and two gradients per colour."""
    mean, std = patch.mean((0, 1)), patch.std((0, 1))
    gy = np.abs(np.diff(patch, axis=0)).mean((0, 1))
    gx = np.abs(np.diff(patch, axis=1)).mean((0, 1))
    return np.concatenate([mean, std, gy, gx])


class BlockMatcher:
    """Parameters: projections wq, wk [F, D] and the dustbin score."""

    def __init__(self, wq, wk, dustbin=1.0, iters=50):
        self.wq, self.wk, self.dustbin, self.iters = wq, wk, dustbin, iters

    def scores(self, a, b):
        q, k = a @ self.wq, b @ self.wk
        return q @ k.T / np.sqrt(q.shape[-1])

    def __call__(self, a, b):
        """a: [M, F], b: [N, F] -> transport plan [M+1, N+1]; the last row and column are the dustbin.

        Marginals: one unit per real block, N units for the row bin, M for the column bin.
        """
        M, N = len(a), len(b)
        z = np.full((M + 1, N + 1), float(self.dustbin))
        z[:M, :N] = self.scores(a, b)
        log_mu = np.append(np.zeros(M), np.log(N))
        log_nu = np.append(np.zeros(N), np.log(M))
        u, v = np.zeros(M + 1), np.zeros(N + 1)
        for _ in range(self.iters):
            u = log_mu - logsumexp(z + v[None, :], axis=1)
            v = log_nu - logsumexp(z + u[:, None], axis=0)
        return np.exp(z + u[:, None] + v[None, :])

    def pairs(self, a, b, threshold=0.2):
        p = self(a, b)[:-1, :-1]
        best_b, best_a = p.argmax(1), p.argmax(0)
        return [(i, j) for i, j in enumerate(best_b) if best_a[j] == i and p[i, j] > threshold]


def demo(seed=0):
    r = np.random.default_rng(seed)
    before = np.stack([descriptor(r.random((8, 8, 3)) * r.random(3)) for _ in range(6)])
    order = r.permutation(6)[:5]
    after = before[order] + r.normal(size=(5, 12)) * 0.01
    w = r.normal(size=(12, 16)) * 4
    return BlockMatcher(w, w).pairs(before, after), order


if __name__ == "__main__":
    print(demo())
