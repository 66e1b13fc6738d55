"""brk: kv for beam search over one self-attn layer, B sentences x W beams.

The rows of a step are (B*W); row b*W + w is beam w of sentence b.  After a step the
search keeps W candidates per sentence; ``src`` says from which beam each of them
grew, and its whole past goes along with it.

``Brk(n, h)``; tick(x, kv, src=None)
    x   : (B*W, n) newest tokens
    kv  : None or (k, v), each (B*W, h, T, d), as returned by the last tick
    src : (B, W) long or None; beam (0..W-1, in its own sentence) whose past the row
          continues; None = rows stay as they are
returns (y (B*W, n), kv).  A row reads its past and itself, logits / sqrt(d).
"""
import torch
from torch import nn


class Brk(nn.Module):
    def __init__(self, n, h):
        super().__init__()
        self.h, self.d = h, n // h
        self.l1 = nn.Linear(n, n, bias=False)
        self.l2 = nn.Linear(n, 2 * n, bias=False)
        self.l3 = nn.Linear(n, n)

    def hd(self, t):
        return t.view(t.shape[0], 1, self.h, self.d).transpose(1, 2)

    def shuf(self, kv, src):
        B, W = src.shape
        r = (src + W * torch.arange(B, device=src.device)[:, None]).reshape(-1)
        k, v = kv
        k = k.index_select(0, r)
        return k, v

    def tick(self, x, kv=None, src=None):
        q = self.hd(self.l1(x))
        k, v = (self.hd(t) for t in self.l2(x).chunk(2, -1))
        if kv is not None:
            if src is not None:
                kv = self.shuf(kv, src)
            k = torch.cat([kv[0], k], dim=2)
            v = torch.cat([kv[1], v], dim=2)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.l3(y.transpose(1, 2).flatten(1)), (k, v)
