"""Shared-prefix decoding for the weather-relay bots (NumPy model of the GPU path).

All bots of a relay share one long system text.  Its keys and values are stored once; each
bot has only its own short tail.  A step computes attention over the prefix for all
bots in one matrix product, attention over every tail on its own, and merges the two
partial states.  The result is that of ordinary attention over prefix + tail.

A partial state is (o, s):   o  mean of the values under the softmax of that part
                             s  log-sum-exp of that part's scores
The inner kernel uses exp2, as the GPU kernel does: log2(e) is folded into the scale.
"""
import dataclasses
import math

import numpy as np

LOG2E = math.log2(math.e)


@dataclasses.dataclass
class State:
    o: np.ndarray          # [bots, heads, dim]
    s: np.ndarray          # [bots, heads]


def partial_state(q, k, v):
    """q [bots, heads, dim]; k, v [n, heads, dim]"""
    scale = LOG2E / math.sqrt(q.shape[-1])
    x = np.einsum("bhd,nhd->bhn", q, k) * scale
    m = x.max(-1)
    e = np.exp2(x - m[..., None])
    z = e.sum(-1)
    return State(np.einsum("bhn,nhd->bhd", e, v) / z[..., None], m + np.log2(z))


def merge_states(a, b):
    top = np.maximum(a.s, b.s)
    wa = np.exp(a.s - top)
    wb = np.exp(b.s - top)
    total = wa + wb
    o = (a.o * wa[..., None] + b.o * wb[..., None]) / total[..., None]
    return State(o, top + np.log(total))


class Tail:
    def __init__(self, heads, dim):
        self.k = np.zeros((0, heads, dim))
        self.v = np.zeros((0, heads, dim))

    def push(self, k, v):
        self.k = np.concatenate([self.k, k[None]])
        self.v = np.concatenate([self.v, v[None]])


class RelayAttention:
    def __init__(self, heads, dim):
        self.heads, self.dim = heads, dim
        self.prefix_k = self.prefix_v = None
        self.tails = {}

    def load_prefix(self, k, v):
        """k, v [n, heads, dim], n >= 1"""
        self.prefix_k, self.prefix_v = np.asarray(k, float), np.asarray(v, float)
        self.tails.clear()

    def join(self, bot):
        self.tails[bot] = Tail(self.heads, self.dim)

    def leave(self, bot):
        del self.tails[bot]

    def step(self, bots, q, k, v):
        """One new token for each of `bots`; q, k, v [len(bots), heads, dim] -> same shape.

        The new key and value are put into the tail first: a token sees itself.
        """
        shared = partial_state(q, self.prefix_k, self.prefix_v)
        own_o, own_s = np.empty_like(shared.o), np.empty_like(shared.s)
        for i, b in enumerate(bots):
            t = self.tails[b]
            t.push(k[i], v[i])
            st = partial_state(q[i:i + 1], t.k, t.v)
            own_o[i], own_s[i] = st.o[0], st.s[0]
        return merge_states(shared, State(own_o, own_s)).o


def bytes_saved(prefix_len, bots, heads, dim, itemsize=2):
    """Against one copy of the prefix for every bot."""
    return 2 * prefix_len * heads * dim * itemsize * (bots - 1)


def main():
    r = np.random.default_rng(0)
    relay = RelayAttention(4, 16)
    relay.load_prefix(r.normal(size=(40, 4, 16)), r.normal(size=(40, 4, 16)))
    names = ["Utö", "Kemi", "Hanko"]
    for n in names:
        relay.join(n)
    for _ in range(5):
        y = relay.step(names, *r.normal(size=(3, 3, 4, 16)))
    print(y.shape, bytes_saved(40, 3, 4, 16))


if __name__ == "__main__":
    main()
