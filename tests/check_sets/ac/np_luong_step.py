"""Luong et al. 2015, global attention, one decoder step at a time (numpy inference code)."""
import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(scores):
    """Row-wise softmax, shifted by the maximum for stability."""
    m = np.max(scores, axis=-1, keepdims=True)
    return np.exp(scores - m) / np.sum(np.exp(scores), axis=-1, keepdims=True)


class LSTMCell:
    def __init__(self, n_in, n_hid, rng):
        self.W = rng.normal(0, 0.3, (n_in + n_hid, 4 * n_hid))
        self.b = np.zeros(4 * n_hid)

    def __call__(self, x, h, c):
        i, f, o, g = np.split(np.concatenate([x, h], -1) @ self.W + self.b, 4, axis=-1)
        c = sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c


class LuongDecoder:
    """score = 'dot' | 'general'. Input feeding as in section 3.3 of the paper."""

    def __init__(self, vocab, emb, hid, score="general", seed=0):
        rng = np.random.default_rng(seed)
        self.score_fn = score
        self.E = rng.normal(0, 0.5, (vocab, emb))
        self.cell = LSTMCell(emb + hid, hid, rng)
        self.Wa = rng.normal(0, hid ** -0.5, (hid, hid))
        self.Wc = rng.normal(0, (2 * hid) ** -0.5, (2 * hid, hid))
        self.Ws = rng.normal(0, hid ** -0.5, (hid, vocab))

    def attend(self, h, enc, enc_len):
        # h (B, H), enc (B, S, H), enc_len (B,)
        query = h if self.score_fn == "dot" else h @ self.Wa
        score = np.einsum("bh,bsh->bs", query, enc)
        pad = np.arange(enc.shape[1])[None, :] >= np.asarray(enc_len)[:, None]
        score = np.where(pad, -np.inf, score)
        a = softmax(score)
        return np.einsum("bs,bsh->bh", a, enc), a

    def step(self, y, state, enc, enc_len):
        h, c, h_tilde = state
        h, c = self.cell(np.concatenate([self.E[y], h_tilde], -1), h, c)
        ctx, a = self.attend(h, enc, enc_len)
        h_tilde = np.tanh(np.concatenate([ctx, h], -1) @ self.Wc)
        return h_tilde @ self.Ws, (h, c, h_tilde), a

    def greedy(self, enc, enc_len, bos=1, max_len=10):
        B, _, H = enc.shape
        state = (np.zeros((B, H)), np.zeros((B, H)), np.zeros((B, H)))
        y = np.full(B, bos)
        out = []
        for _ in range(max_len):
            logits, state, _ = self.step(y, state, enc, enc_len)
            y = logits.argmax(-1)
            out.append(y)
        return np.stack(out, 1)
