"""
End-to-end memory network on bAbI-like stories, forward pass only.

Sukhbaatar et al. 2015: p_i = softmax(u . m_i), o = sum p_i c_i, u' = u + o.
The inner product is NOT scaled (neither in the paper nor in the weights we load).
Weight tying "adjacent": the output embedding of hop k is the input embedding of
hop k+1.
"""
import numpy as np


def position_encoding(J, d):
    """l_kj = (1 - j/J) - (k/d)(1 - 2j/J), 1-based, -> [J, d]"""
    j = np.arange(1, J + 1)[:, None] / J
    k = np.arange(1, d + 1)[None, :] / d
    return (1 - j) - k * (1 - 2 * j)


def masked_softmax(x, keep):
    x = np.where(keep, x, -np.inf)
    hi = x.max(axis=-1, keepdims=True)
    hi = np.where(np.isfinite(hi), hi, 0.0)
    e = np.exp(x - hi)
    tot = e.sum(axis=-1, keepdims=True)
    return e / np.where(tot == 0.0, 1.0, tot)


class MemoryNetwork:

    def __init__(self, vocab, d=20, hops=3, max_mem=50, rng=None):
        rng = rng or np.random.default_rng()
        self.hops, self.d = hops, d
        # word 0 is padding: its row stays zero
        self.E = [rng.normal(0, 0.1, (vocab, d)) for _ in range(hops + 1)]
        self.T = [rng.normal(0, 0.1, (max_mem, d)) for _ in range(hops + 1)]
        for e in self.E:
            e[0] = 0.0

    def embed(self, hop, sents):
        """[..., J] word ids -> [..., d]"""
        w = position_encoding(sents.shape[-1], self.d)
        return (self.E[hop][sents] * w).sum(axis=-2)

    def __call__(self, story, query, return_attention=False):
        """story [B, M, J], query [B, J]; 0 = no word; a sentence of zeros is an
        unused memory slot, which never receives weight. Oldest sentence first."""
        B, M, _ = story.shape
        used = (story != 0).any(axis=-1)
        age = np.arange(M)[::-1]                    # 0 = most recent
        u = self.embed(0, query)
        maps = []
        for k in range(self.hops):
            m = self.embed(k, story) + self.T[k][age]
            c = self.embed(k + 1, story) + self.T[k + 1][age]
            p = masked_softmax(np.einsum("bd,bmd->bm", u, m), used)
            u = u + np.einsum("bm,bmd->bd", p, c)
            maps.append(p)
        logits = u @ self.E[-1].T
        return (logits, np.stack(maps, 1)) if return_attention else logits


def answer(net, story, query):
    return net(story, query).argmax(-1)


if __name__ == "__main__":
    r = np.random.default_rng(1)
    net = MemoryNetwork(30, rng=r)
    print(answer(net, r.integers(0, 30, (2, 6, 5)), r.integers(1, 30, (2, 5))))
