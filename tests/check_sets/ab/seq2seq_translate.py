"""GRU encoder/decoder with Bahdanau attention, forward pass only (for the browser demo export)."""
import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class GRUCell(object):
    def __init__(self, n_in, n_hid, rng):
        s = 1.0 / np.sqrt(n_hid)
        self.W = rng.uniform(-s, s, (n_in, 3 * n_hid))
        self.U = rng.uniform(-s, s, (n_hid, 3 * n_hid))
        self.b = np.zeros(3 * n_hid)
        self.n = n_hid

    def step(self, x, h):
        n = self.n
        gx, gh = x @ self.W + self.b, h @ self.U
        z = sigmoid(gx[:, :n] + gh[:, :n])
        r = sigmoid(gx[:, n:2 * n] + gh[:, n:2 * n])
        c = np.tanh(gx[:, 2 * n:] + r * gh[:, 2 * n:])
        return (1 - z) * h + z * c


class BahdanauAttention(object):
    """e_ij = v_a^T tanh(W_a s_{i-1} + U_a h_j)   (Bahdanau et al., 2015, appendix A.1.2)"""

    def __init__(self, n_dec, n_enc, n_att, rng):
        self.Wa = rng.randn(n_dec + n_enc, n_att) * 0.3
        self.va = rng.randn(n_att) * 0.3

    def __call__(self, state, annotations, src_mask):
        """
        state        batch x n_dec
        annotations  batch x src_len x n_enc
        src_mask     batch x src_len, 1 for words and 0 for <pad>
        """
        n = annotations.shape[1]
        s = np.repeat(state[:, None, :], n, axis=1)
        energy = np.concatenate([s, annotations], axis=-1) @ self.Wa
        e = energy @ self.va
        e = e * src_mask
        alpha = softmax(e, axis=1)
        context = np.einsum("bn,bnd->bd", alpha, annotations)
        return context, alpha


class Translator(object):
    def __init__(self, src_vocab, trg_vocab, n_emb=16, n_hid=24, n_att=20, seed=3):
        rng = np.random.RandomState(seed)
        self.src_emb = rng.randn(src_vocab, n_emb) * 0.1
        self.trg_emb = rng.randn(trg_vocab, n_emb) * 0.1
        self.enc = GRUCell(n_emb, n_hid, rng)
        self.dec = GRUCell(n_emb + n_hid, n_hid, rng)
        self.att = BahdanauAttention(n_hid, n_hid, n_att, rng)
        self.out = rng.randn(n_hid, trg_vocab) * 0.1

    def encode(self, src):
        h = np.zeros((src.shape[0], self.enc.n))
        states = []
        for t in range(src.shape[1]):
            h = self.enc.step(self.src_emb[src[:, t]], h)
            states.append(h)
        return np.stack(states, axis=1)

    def translate(self, src, src_mask, max_len=10, bos=1):
        ann = self.encode(src)
        s = ann[:, -1]
        y = np.full(src.shape[0], bos)
        result = []
        for _ in range(max_len):
            ctx, _ = self.att(s, ann, src_mask)
            s = self.dec.step(np.concatenate([self.trg_emb[y], ctx], axis=-1), s)
            y = (s @ self.out).argmax(-1)
            result.append(y)
        return np.stack(result, axis=1)
