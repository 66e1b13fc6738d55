"""Menu translation toy, NumPy inference of the attentional decoder step.

Luong et al. 2015, "general" score:

    score(h_t, s) = h_t^T W_a s            (no scaling, as in the paper)
    a_t           = softmax over the source positions
    c_t           = sum_s a_t(s) * s
    h~_t          = tanh(W_c [c_t ; h_t])

The weights come from a file that the training job wrote.
"""
import numpy as np


def masked_softmax(z, keep):
    """Softmax over the last axis, only where keep. Rows without any kept entry
    come back as zeros."""
    z = np.where(keep, z, -np.inf)
    top = z.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(z - top)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0.0, 1.0, total)


def luong_step(h, source, keep, W_a, W_c):
    """One step of the decoder.

    h       [B, H]      decoder state at t
    source  [B, S, E]   encoder outputs
    keep    [B, S]      bool, True for real source words
    W_a     [H, E]
    W_c     [O, E + H]

    returns (attentional vector [B, O], weights [B, S])
    """
    score = np.einsum("bh,he,bse->bs", h, W_a, source)
    a = masked_softmax(score, keep)
    context = np.einsum("bs,bse->be", a, source)
    joined = np.concatenate([context, h], axis=-1)
    return np.tanh(joined @ W_c.T), a


class MenuDecoder:
    def __init__(self, hidden=12, enc=10, out=8, vocab=30, seed=0):
        rng = np.random.default_rng(seed)
        self.W_a = rng.normal(0, enc ** -0.5, (hidden, enc))
        self.W_c = rng.normal(0, (enc + hidden) ** -0.5, (out, enc + hidden))
        self.W_o = rng.normal(0, out ** -0.5, (vocab, out))

    def word_logits(self, h, source, lengths):
        """lengths [B]: number of source words per dish."""
        keep = np.arange(source.shape[1])[None, :] < np.asarray(lengths)[:, None]
        vec, a = luong_step(h, source, keep, self.W_a, self.W_c)
        return vec @ self.W_o.T, a


if __name__ == "__main__":
    r = np.random.default_rng(1)
    dec = MenuDecoder()
    lg, a = dec.word_logits(r.normal(size=(3, 12)), r.normal(size=(3, 6, 10)), [6, 2, 4])
    print(lg.shape, a.round(2))
