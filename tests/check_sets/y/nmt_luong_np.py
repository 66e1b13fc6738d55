# Global attention NMT decoder (Luong et al. 2015), inference only, numpy.
# everything is time-major: hs is (S, B, n), ys is (T, B)
import numpy as np


def sigm(x):
    return 1. / (1. + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _u(rng, *s):
    return rng.uniform(-0.3, 0.3, size=s)


def make_params(V=30, e=12, n=16, score='general', seed=1):
    rng = np.random.RandomState(seed)
    return {
        'emb': _u(rng, V, e),
        'lstm_W': _u(rng, 4 * n, e + n + n),     # input feeding: [y; htilde; h]
        'lstm_b': np.zeros(4 * n),
        'Wa': _u(rng, n, n) if score in ('general',) else _u(rng, n, 2 * n),
        'va': _u(rng, n),
        'Wc': _u(rng, n, 2 * n),
        'Ws': _u(rng, V, n),
        'score': score,
    }


class LuongDecoder(object):

    def __init__(self, params=None):
        self.p = params or make_params()

    def lstm(self, x, h, c):
        z = np.concatenate([x, h], 1).dot(self.p['lstm_W'].T) + self.p['lstm_b']
        i, f, o, g = np.split(z, 4, axis=1)
        c = sigm(f + 1.) * c + sigm(i) * np.tanh(g)
        return sigm(o) * np.tanh(c), c

    def scores(self, h, hs):
        """h (B, n), hs (S, B, n) -> (S, B)"""
        kind = self.p['score']
        if kind == 'dot':
            return np.einsum('bn,sbn->sb', h, hs)
        if kind == 'general':
            return np.einsum('bn,sbn->sb', h.dot(self.p['Wa']), hs)
        if kind == 'concat':
            both = np.concatenate([np.broadcast_to(h, hs.shape), hs], axis=2)
            return np.tanh(both.dot(self.p['Wa'].T)).dot(self.p['va'])
        raise ValueError(kind)

    def attention(self, h, hs, src_len=None):
        a = self.scores(h, hs)
        if src_len is not None:
            steps = np.arange(hs.shape[0])[:, None]
            a = np.where(steps < np.asarray(src_len)[None, :], a, -np.inf)
        a = softmax(a, 0)
        return (a[:, :, None] * hs).sum(0), a

    def step(self, y, state, hs, src_len=None):
        h, c, feed = state
        h, c = self.lstm(np.concatenate([self.p['emb'][y], feed], 1), h, c)
        ctx, a = self.attention(h, hs, src_len)
        feed = np.tanh(np.concatenate([ctx, h], 1).dot(self.p['Wc'].T))
        return feed.dot(self.p['Ws'].T), (h, c, feed), a

    def init_state(self, hs, src_len=None):
        S, B, n = hs.shape
        last = hs[-1] if src_len is None else hs[np.asarray(src_len) - 1, np.arange(B)]
        return last.copy(), np.zeros((B, n)), np.zeros((B, n))

    def __call__(self, ys, hs, src_len=None):
        """teacher forced -> logits (T, B, V), alignments (T, S, B)"""
        st = self.init_state(hs, src_len)
        L, A = [], []
        for y in ys:
            l, st, a = self.step(y, st, hs, src_len)
            L.append(l)
            A.append(a)
        return np.stack(L), np.stack(A)

    def greedy(self, hs, src_len=None, bos=1, eos=2, max_len=12):
        st = self.init_state(hs, src_len)
        y = np.full(hs.shape[1], bos)
        done = np.zeros(hs.shape[1], dtype=bool)
        out = []
        while len(out) < max_len and not done.all():
            l, st, _ = self.step(y, st, hs, src_len)
            y = np.where(done, eos, l.argmax(1))
            done |= y == eos
            out.append(y)
        return np.stack(out)
