import math
import torch


def _slopes(n):
    def pow2(m):
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]
    low = 2 ** int(math.floor(math.log2(n)))
    if low == n:
        return pow2(n)
    return pow2(low) + pow2(2 * low)[0::2][: n - low]


class RingDecoder:
    """One layer of an ALiBi decoder that keeps the last `window` tokens.

    `window` counts the current token.  push() takes one token for every
    sequence, q/k/v of (B, H, D), and returns (B, H, D).
    """

    def __init__(self, n_heads=6, head_dim=8, window=5):
        self.n_heads, self.head_dim, self.window = n_heads, head_dim, window
        self.slopes = torch.tensor(_slopes(n_heads))
        self.reset()

    def reset(self):
        self.t = 0
        self.kbuf = self.vbuf = None
        self.when = torch.full((self.window,), -1)

    def push(self, q, k, v):
        if self.kbuf is None:
            self.kbuf = k.new_zeros(k.shape[0], self.n_heads, self.window, self.head_dim)
            self.vbuf = torch.zeros_like(self.kbuf)
        slot = self.t % self.window
        self.kbuf[:, :, slot] = k
        self.vbuf[:, :, slot] = v
        self.when[slot] = self.t
        s = (self.kbuf @ q.unsqueeze(-1)).squeeze(-1) / math.sqrt(self.head_dim)
        age = (self.t - self.when).to(s.dtype)
        s = s - self.slopes.to(s.dtype)[None, :, None] * age
        s = s.masked_fill(self.when < 0, float("-inf"))
        self.t += 1
        return (s.softmax(-1).unsqueeze(-2) @ self.vbuf).squeeze(-2)
