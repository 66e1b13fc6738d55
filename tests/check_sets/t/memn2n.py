import numpy as np


class MemN2N:
    # end-to-end memory network, K hops, adjacent weight tying

    def __init__(self, vocab, d=20, hops=3, seed=1):
        r = np.random.RandomState(seed)
        self.E = [r.randn(vocab, d) * 0.3 for _ in range(hops + 1)]
        self.hops = hops

    def bow(self, E, x):
        # x: (..., words) token ids, 0 = padding
        return (E[x] * (x != 0)[..., None]).sum(axis=-2)

    def read(self, u, m, c):
        # u: (batch, d) state; m, c: (batch, memories, d)
        p = np.einsum("bd,bnd->bn", u, m)
        p = np.exp(p - p.max())
        p = p / p.sum()
        return np.einsum("bn,bnd->bd", p, c)

    def __call__(self, stories, questions):
        # stories: (batch, memories, words); questions: (batch, words)
        u = self.bow(self.E[0], questions)
        for h in range(self.hops):
            m = self.bow(self.E[h], stories)
            c = self.bow(self.E[h + 1], stories)
            u = u + self.read(u, m, c)
        return u @ self.E[-1].T
