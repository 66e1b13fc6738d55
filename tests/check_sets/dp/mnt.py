"""mnt: grouped-query attn w/ growing kv, for chunked prefill of long prompts.

nh query heads, nk kv heads, r = nh / nk: the query heads 0..r-1 use kv head 0,
r..2r-1 use kv head 1 and so on (Llama / Mistral order).

``Mnt(w, nh, nk)``;  forward(x, pst=None)
    x   : (B, T, w), T new tokens (any T >= 1)
    pst : None or (k, v), each (B, nk, P, d), from the previous call
returns (y (B, T, w), (k, v) with P + T tokens).  New token t stands at P + t and
reads tokens 0 .. P + t, so that feeding a text in chunks or at once is the same.
Logits are q.k / sqrt(d), d = w / nh.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mnt(nn.Module):
    def __init__(self, w, nh, nk):
        super().__init__()
        self.nh, self.nk, self.d = nh, nk, w // nh
        self.pq = nn.Linear(w, nh * self.d, bias=False)
        self.pk = nn.Linear(w, nk * self.d, bias=False)
        self.pv = nn.Linear(w, nk * self.d, bias=False)
        self.po = nn.Linear(nh * self.d, w, bias=False)

    def forward(self, x, pst=None):
        B, T, _ = x.shape
        q = self.pq(x).view(B, T, self.nh, self.d).transpose(1, 2)
        k = self.pk(x).view(B, T, self.nk, self.d).transpose(1, 2)
        v = self.pv(x).view(B, T, self.nk, self.d).transpose(1, 2)
        if pst is not None:
            k = torch.cat((pst[0], k), dim=2)
            v = torch.cat((pst[1], v), dim=2)
        now = (k, v)
        r = self.nh // self.nk
        if r > 1:
            k = k.repeat(1, r, 1, 1)
            v = v.repeat(1, r, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1, scale=1.0)
        return self.po(y.transpose(1, 2).reshape(B, T, -1)), now
