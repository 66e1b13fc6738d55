import numpy as np

# GRU encoder-decoder with Bahdanau attention for date normalisation, forward only.
# One example at a time, columns are time steps: enc is (hidden, S).


def sigmoid(z):
    return .5 * (1 + np.tanh(.5 * z))


def softmax(z, axis=0):
    ez = np.exp(z - z.max(axis=axis, keepdims=True))
    return ez / ez.sum(axis=axis, keepdims=True)


def glorot(rng, *shape):
    return rng.uniform(-1, 1, shape) * np.sqrt(6.0 / sum(shape))


class GRU:
    def __init__(self, n_x, n_h, rng):
        self.Wx = glorot(rng, 3 * n_h, n_x)
        self.Wh = glorot(rng, 3 * n_h, n_h)
        self.b = np.zeros((3 * n_h, 1))
        self.n_h = n_h

    def step(self, x, h):
        gx, gh = self.Wx @ x + self.b, self.Wh @ h
        n = self.n_h
        z = sigmoid(gx[:n] + gh[:n])
        r = sigmoid(gx[n:2 * n] + gh[n:2 * n])
        cand = np.tanh(gx[2 * n:] + r * gh[2 * n:])
        return (1 - z) * h + z * cand

    def run(self, X, reverse=False):
        T = X.shape[1]
        h = np.zeros((self.n_h, 1))
        H = np.zeros((self.n_h, T))
        for t in (reversed(range(T)) if reverse else range(T)):
            h = self.step(X[:, t:t + 1], h)
            H[:, t:t + 1] = h
        return H


class AttentiveSeq2Seq:
    def __init__(self, vocab_in, vocab_out, emb=8, hid=12, att=10, seed=3):
        rng = np.random.default_rng(seed)
        self.Ein, self.Eout = glorot(rng, emb, vocab_in), glorot(rng, emb, vocab_out)
        self.fwd, self.bwd = GRU(emb, hid, rng), GRU(emb, hid, rng)
        self.dec = GRU(emb + 2 * hid, hid, rng)
        self.Wa, self.Ua, self.va = glorot(rng, att, hid), glorot(rng, att, 2 * hid), glorot(rng, 1, att)
        self.Ws = glorot(rng, hid, hid)
        self.Wy, self.by = glorot(rng, vocab_out, hid), np.zeros((vocab_out, 1))

    def encode(self, src):
        X = self.Ein[:, src]
        H = np.vstack([self.fwd.run(X), self.bwd.run(X, reverse=True)])
        return H, self.Ua @ H                   # keys do not change, project them once

    def attend(self, s, H, UH):
        e = self.va @ np.tanh(self.Wa @ s + UH)            # (1, S)
        a = softmax(e.T)                                   # (S, 1), sums to one along axis 0
        return H @ a, a

    def decode(self, src, n_steps, bos=0, teacher=None):
        H, UH = self.encode(src)
        s = np.tanh(self.Ws @ H[self.fwd.n_h:, :1])
        y, outs, maps = bos, [], []
        for t in range(n_steps):
            c, a = self.attend(s, H, UH)
            s = self.dec.step(np.vstack([self.Eout[:, [y]], c]), s)
            p = softmax(self.Wy @ s + self.by)
            outs.append(p[:, 0])
            maps.append(a[:, 0])
            y = int(p.argmax()) if teacher is None else int(teacher[t])
        return np.array(outs), np.array(maps)
