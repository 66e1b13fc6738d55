"""End-to-end memory network (Sukhbaatar et al., 2015) forward pass, NumPy only.

Toy version for the bAbI story tasks. Sentences are bags of words with the
paper's position encoding l_kj; the match between the question state and a
memory is the plain inner product (the paper does not divide it), p = softmax(u.m)
over the memories, and o = sum_i p_i c_i. Adjacent weight tying: A^{k+1} = C^k,
B = A^1, W^T = C^K, so there are hops+1 embedding matrices and hops+1 temporal
matrices. The newest sentence has temporal index 0. Unused memories (all words 0)
take no part.
"""
import numpy as np

PAD = 0


def position_encoding(n_words, dim):
    """l_kj = (1 - j/J) - (k/d)(1 - 2j/J), j and k from 1.  -> [J, d]"""
    j = np.arange(1, n_words + 1)[:, None] / n_words
    k = np.arange(1, dim + 1)[None, :] / dim
    return (1 - j) - k * (1 - 2 * j)


class MemN2N:
    def __init__(self, vocab, dim=20, memory=10, hops=3, seed=0):
        rng = np.random.default_rng(seed)
        self.hops, self.memory = hops, memory
        self.E = rng.normal(0, 0.1, (hops + 1, vocab, dim))
        self.E[:, PAD] = 0.0
        self.T = rng.normal(0, 0.1, (hops + 1, memory, dim))

    def embed(self, table, words):
        # words [..., J] -> [..., d]
        return (table[words] * position_encoding(words.shape[-1], table.shape[1])).sum(-2)

    def forward(self, story, question):
        """story [B, M, J] word ids, oldest first; question [B, J].

        Returns the answer distribution [B, vocab] and the match of every hop
        [hops, B, M]. A story has at least one sentence.
        """
        m_count = story.shape[1]
        if m_count > self.memory:
            raise ValueError("story is longer than the memory")
        used = (story != PAD).any(-1)
        # age of each used sentence counted from the newest one
        age = np.cumsum(used[:, ::-1], axis=1)[:, ::-1] - 1
        age = np.clip(age, 0, None)
        u = self.embed(self.E[0], question)
        matches = []
        for k in range(self.hops):
            m = self.embed(self.E[k], story) + self.T[k][age]
            c = self.embed(self.E[k + 1], story) + self.T[k + 1][age]
            s = np.einsum("bd,bmd->bm", u, m)
            s = np.where(used, s, -np.inf)
            s = s - s.max(axis=1, keepdims=True)
            p = np.exp(s)
            p /= p.sum(axis=1, keepdims=True)
            u = u + np.einsum("bm,bmd->bd", p, c)
            matches.append(p)
        logits = u @ self.E[-1].T
        logits -= logits.max(axis=1, keepdims=True)
        a = np.exp(logits)
        return a / a.sum(axis=1, keepdims=True), np.stack(matches)

    __call__ = forward
