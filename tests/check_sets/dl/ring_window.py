"""Rolling buffer cache in the manner of Mistral, one token per call.

Window W: a token attends to itself and to the W - 1 tokens before it.  The buffer has W
slots; the token at absolute position p lies in slot p % W and overwrites the one that has
just fallen out of the window.  The order of the slots is of no importance, for rotary
embedding was applied by the caller at absolute positions before the keys came in.
"""
import math

import torch


class RollingBuffer:
    def __init__(self, batch, heads, window, head_dim, dtype=torch.float32):
        self.window = window
        self.seen = 0
        self.k = torch.zeros(batch, window, heads, head_dim, dtype=dtype)
        self.v = torch.zeros(batch, window, heads, head_dim, dtype=dtype)

    def push(self, k, v):
        slot = self.seen % self.window
        self.k[:, slot] = k
        self.v[:, slot] = v
        self.seen += 1

    def live(self):
        """Bool (window,): the slots that hold a token."""
        return torch.arange(self.window) < min(self.seen, self.window)


def roll_step(q, k, v, buf):
    """Attend with one new token.

    q, k, v: (B, H, d), the new token's query, key and value.
    buf: RollingBuffer of the same B, H, d; it takes the new key and value first.
    Returns (B, H, d): softmax(q K^T / sqrt(d)) V over the tokens in the window.
    """
    buf.push(k, v)
    logits = torch.einsum("bhd,bwhd->bhw", q, buf.k) / math.sqrt(q.shape[-1])
    logits = torch.where(buf.live(), logits, torch.tensor(float("-inf"), dtype=logits.dtype))
    w = torch.softmax(logits, dim=-1)
    return torch.einsum("bhw,bwhd->bhd", w, buf.v)
