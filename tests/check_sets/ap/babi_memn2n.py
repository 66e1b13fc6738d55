"""End-to-end memory network (Sukhbaatar et al. 2015) in NumPy, forward pass only.

Stories are int arrays (n_sentences, n_words), 0 = filler word; sentences made of fillers
only are filler sentences and are not attended to.  Adjacent weight tying:
A[k+1] = C[k], B = A[0], W = C[-1]^T.
"""
import numpy as np


def position_encoding(n_words, dim):
    """l[j, k] = (1 - j/J) - (k/d)(1 - 2j/J), j and k from 1."""
    j = np.arange(1, n_words + 1)[:, None] / n_words
    k = np.arange(1, dim + 1)[None, :] / dim
    return (1 - j) - k * (1 - 2 * j)


def softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


class MemN2N:
    def __init__(self, vocab, dim=20, hops=3, max_sent=50, seed=0, linear=False):
        rng = np.random.default_rng(seed)
        init = lambda *s: rng.normal(0, 0.1, s)
        self.E = [init(vocab, dim) for _ in range(hops + 1)]
        for e in self.E:
            e[0] = 0.0
        self.T = [init(max_sent, dim) for _ in range(hops + 1)]
        self.hops, self.linear = hops, linear

    def _encode(self, table, ids):
        """Bag of words with position encoding: (..., n_words) -> (..., dim)"""
        emb = table[ids] * (ids != 0)[..., None]
        return (emb * position_encoding(ids.shape[-1], table.shape[1])).sum(-2)

    def _memory(self, k, story):
        m = self._encode(self.E[k], story)
        age = np.arange(len(story))[::-1]      # the newest sentence has age 0
        return m + self.T[k][age]

    def attend(self, u, story, k, real):
        """One hop: p = softmax(u . m) over real sentences; o = sum p c.

        The paper uses the plain inner product, there is no temperature.
        With ``linear`` start the softmax is left out (section 4.1 of the paper).
        """
        m, c = self._memory(k, story), self._memory(k + 1, story)
        z = m @ u
        if self.linear:
            p = z * real
        else:
            p = softmax(np.where(real, z, -np.inf))
        return p @ c, p

    def answer(self, story, question):
        """Returns log-probabilities over the vocabulary and the weights of each hop."""
        story, question = np.asarray(story), np.asarray(question)
        real = (story != 0).any(-1)
        u = self._encode(self.E[0], question)
        trace = []
        for k in range(self.hops):
            if real.any():
                o, p = self.attend(u, story, k, real)
            else:
                o, p = np.zeros_like(u), np.zeros(len(story))
            u = u + o
            trace.append(p)
        logits = self.E[-1] @ u
        logits = logits - logits.max()
        return logits - np.log(np.exp(logits).sum()), trace


def vectorize(lines, vocab, n_words):
    """Words to ids; unknown words get an id of their own."""
    out = np.zeros((len(lines), n_words), int)
    for i, line in enumerate(lines):
        for j, w in enumerate(line.lower().rstrip(".?").split()[:n_words]):
            out[i, j] = vocab.setdefault(w, len(vocab) + 1)
    return out
