import numpy as np


class OnlineAttention:
    """Exact attention over a stream of key/value blocks, with constant memory (Milakov and Gimelshein 2018).

    for K, V in stream: att.update(K, V);  att.result() == softmax(q K_all^T / sqrt(d)) V_all
    q: (n, d)   K: (b, d)   V: (b, dv)
    """

    def __init__(self, q, dv):
        self.q = q / np.sqrt(q.shape[-1])
        self.m = np.full(len(q), -np.inf)
        self.l = np.zeros(len(q))
        self.acc = np.zeros((len(q), dv))

    def update(self, K, V):
        s = self.q @ K.T
        m = np.maximum(self.m, s.max(-1))
        p = np.exp(s - m[:, None])
        self.l = self.l * np.exp(self.m - m) + p.sum(-1)
        self.acc = self.acc + p @ V
        self.m = m

    def result(self):
        return self.acc / self.l[:, None]


def attend(q, keys, values, block=2):
    """q (n, d), keys (m, d), values (m, dv) -> (n, dv), softmax(q keys^T / sqrt(d)) values, block by block."""
    att = OnlineAttention(q, values.shape[-1])
    for a in range(0, len(keys), block):
        att.update(keys[a : a + block], values[a : a + block])
    return att.result()
