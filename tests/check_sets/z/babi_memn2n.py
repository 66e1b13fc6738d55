# End-To-End Memory Networks on bAbI -- forward pass in plain numpy, for the blog post.
# weight tying: "adjacent" (A_{k+1} = C_k, B = A_1, W^T = C_K)
import numpy as np

NIL = 0


def position_encoding(J, d):
    """l_kj = (1 - j/J) - (k/d)(1 - 2j/J), 1-based, eq. (4) of the paper"""
    j = np.arange(1, J + 1)[:, None]
    k = np.arange(1, d + 1)[None, :]
    return (1 - j / J) - (k / d) * (1 - 2 * j / J)


def softmax_rows(x):
    x = x - x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


class MemN2N:
    """stories (B, M, J) word ids, query (B, J); 0 is the NIL word.

    The newest sentence comes first; unused memory slots are rows of NIL at the end.
    Slots without any word are left out of the softmax.
    linear_start=True removes the softmax of the hops (section 4.2, "linear start").
    """

    def __init__(self, vocab, d=20, hops=3, mem=50, sent_len=6, seed=1, linear_start=False):
        rng = np.random.default_rng(seed)
        self.E = [rng.normal(0, 0.1, (vocab, d)) for _ in range(hops + 1)]
        self.T = [rng.normal(0, 0.1, (mem, d)) for _ in range(hops + 1)]
        for e in self.E:
            e[NIL] = 0.0
        self.pe = position_encoding(sent_len, d)
        self.hops, self.linear_start = hops, linear_start

    def embed(self, k, words):
        return (self.E[k][words] * self.pe).sum(-2)

    def forward(self, stories, query):
        M = stories.shape[1]
        empty = (stories == NIL).all(-1)
        u = self.embed(0, query)
        probs = []
        for k in range(self.hops):
            m = self.embed(k, stories) + self.T[k][:M]
            c = self.embed(k + 1, stories) + self.T[k + 1][:M]
            p = np.einsum("bmd,bd->bm", m, u)
            if self.linear_start:
                p = np.where(empty, 0.0, p)
            else:
                p = softmax_rows(np.where(empty, -1e30, p))
            probs.append(p)
            o = np.einsum("bm,bmd->bd", p, c)
            u = u + o
        logits = u @ self.E[self.hops].T
        return logits, np.stack(probs, 1)
