import numpy as np

# Hierarchical attention: words -> sentence vectors -> document vector


def make_params(rng, d, a):
    return dict(W=rng.normal(size=(d, a)) / d**0.5, b=rng.normal(size=a) * 0.1, u=rng.normal(size=a))


def pool(h, mask, p):
    """
    h: [..., n, d] states, mask: [..., n] with 1 for real positions and 0 for padding.
    Returns the weighted sum [..., d] and the weights [..., n]
    """
    u = np.tanh(h @ p["W"] + p["b"])
    score = u @ p["u"]
    score = score * mask
    score = score - score.max(axis=-1, keepdims=True)
    alpha = np.exp(score)
    alpha = alpha / alpha.sum(axis=-1, keepdims=True)
    return np.einsum("...n,...nd->...d", alpha, h), alpha


class GRU:
    def __init__(self, rng, n_in, n):
        self.n = n
        self.Wx = rng.normal(size=(n_in, 3 * n)) / n_in**0.5
        self.Wh = rng.normal(size=(n, 3 * n)) / n**0.5

    def run(self, x, reverse=False):
        steps = range(x.shape[-2])
        h = np.zeros(x.shape[:-2] + (self.n,))
        out = [None] * x.shape[-2]
        for t in reversed(steps) if reverse else steps:
            a = x[..., t, :] @ self.Wx
            b = h @ self.Wh
            n = self.n
            z = 1 / (1 + np.exp(-(a[..., :n] + b[..., :n])))
            r = 1 / (1 + np.exp(-(a[..., n : 2 * n] + b[..., n : 2 * n])))
            h = z * h + (1 - z) * np.tanh(a[..., 2 * n :] + r * b[..., 2 * n :])
            out[t] = h
        return np.stack(out, axis=-2)


class HAN:
    def __init__(self, vocab, d=10, n=6, a=8, classes=4, seed=3):
        rng = np.random.default_rng(seed)
        self.emb = rng.normal(size=(vocab, d))
        self.word = GRU(rng, d, n), GRU(rng, d, n)
        self.sent = GRU(rng, 2 * n, n), GRU(rng, 2 * n, n)
        self.p_word = make_params(rng, 2 * n, a)
        self.p_sent = make_params(rng, 2 * n, a)
        self.out = rng.normal(size=(2 * n, classes))

    def __call__(self, doc, word_counts, sent_counts):
        """doc (B, S, T) ids, word_counts (B, S), sent_counts (B,)"""
        B, S, T = doc.shape
        wm = (np.arange(T) < word_counts[..., None]).astype(float)
        sm = (np.arange(S) < sent_counts[:, None]).astype(float)
        x = self.emb[doc] * wm[..., None]
        h = np.concatenate([self.word[0].run(x), self.word[1].run(x, True)], -1)
        s = pool(h, wm, self.p_word)[0] * sm[..., None]
        h = np.concatenate([self.sent[0].run(s), self.sent[1].run(s, True)], -1)
        d, alpha = pool(h, sm, self.p_sent)
        return d @ self.out, alpha


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    logits, alpha = HAN(30)(
        rng.integers(0, 30, (2, 3, 7)), np.array([[7, 4, 6], [5, 2, 7]]), np.array([3, 2])
    )
    print(logits, alpha.shape)
