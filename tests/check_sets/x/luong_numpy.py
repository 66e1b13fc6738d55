import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    z = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return z / np.sum(z, axis=axis, keepdims=True)


class LuongDecoder(object):
    """ Global attention, score "general" (Luong 2015), with input feeding.
        W_xh etc. in gate order i, f, o, g """

    def __init__(self, vocab=30, D=12, H=16, rng=None):
        rng = np.random.default_rng(0) if rng is None else rng
        u = lambda *s: rng.uniform(-0.3, 0.3, s)
        self.E = u(vocab, D)
        self.Wx, self.Wh, self.b = u(D + H, 4 * H), u(H, 4 * H), np.zeros(4 * H)
        self.Wa = u(H, H)
        self.Wc = u(2 * H, H)
        self.Wo = u(H, vocab)
        self.H = H

    def lstm(self, x, h, c):
        a = x @ self.Wx + h @ self.Wh + self.b
        i, f, o, g = np.split(a, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    def attend(self, h_t, enc, src_len):
        scores = np.einsum("bh,bsh->bs", h_t @ self.Wa, enc)
        if src_len is not None:
            outside = np.arange(enc.shape[1])[None, :] >= np.asarray(src_len)[:, None]
            scores = np.where(outside, -np.inf, scores)
        a_t = softmax(scores, axis=1)
        return np.einsum("bs,bsh->bh", a_t, enc), a_t

    def forward(self, enc, tgt, src_len=None):
        """enc (B, S, H), tgt (B, T) int, src_len (B,) -> logits (B, T, vocab), alignments (B, T, S)"""
        B = enc.shape[0]
        h, c = np.zeros((B, self.H)), np.zeros((B, self.H))
        h_tilde = np.zeros((B, self.H))
        logits, aligns = [], []
        for t in range(tgt.shape[1]):
            x = np.concatenate([self.E[tgt[:, t]], h_tilde], axis=1)
            h, c = self.lstm(x, h, c)
            ctx, a_t = self.attend(h, enc, src_len)
            h_tilde = np.tanh(np.concatenate([ctx, h], axis=1) @ self.Wc)
            logits.append(h_tilde @ self.Wo)
            aligns.append(a_t)
        return np.stack(logits, 1), np.stack(aligns, 1)
