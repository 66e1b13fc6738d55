"""spk - left-padded batch decode with logit softcap, preallocated kv.

``Spk(n, h, mx, cap)``;  ``go(x, st)``
    x  : (B, n), one new token per row
    st : from ``zero(B, skip)``; skip (B,) long = left padding per row: the first
         skip[b] tokens that come in for row b are padding, they are stored but
         a real token never reads them (weight 0)
returns y (B, n); st is updated (tokens counted in st.t, at most mx).
    logit = cap * tanh(q.k / sqrt(d) / cap), softmax over the real tokens so far
What y is for padding tokens does not matter.
"""
import torch
import torch.nn as nn


class St:
    pass


class Spk(nn.Module):
    def __init__(self, n, h, mx, cap=5.0):
        super().__init__()
        self.h, self.d, self.mx, self.cap = h, n // h, mx, cap
        self.pj = nn.Linear(n, 3 * n, bias=False)
        self.ot = nn.Linear(n, n, bias=False)

    def zero(self, B, skip):
        st = St()
        st.k = self.pj.weight.new_zeros(B, self.h, self.mx, self.d)
        st.v = st.k.clone()
        st.t = 0
        st.skip = skip
        return st

    @torch.no_grad()
    def go(self, x, st):
        B = x.shape[0]
        q, k, v = self.pj(x).view(B, 3, self.h, self.d).unbind(1)
        st.k[:, :, st.t] = k
        st.v[:, :, st.t] = v
        st.t += 1
        K, V = st.k[:, :, :st.t], st.v[:, :, :st.t]
        K *= self.d ** -0.5
        s = torch.einsum("bhd,bhjd->bhj", q, K)
        pad = torch.arange(st.t, device=x.device)[None] < st.skip[:, None]
        s = s.masked_fill(pad[:, None], -torch.inf)
        s = self.cap * torch.tanh(s / self.cap)
        y = torch.einsum("bhj,bhjd->bhd", s.softmax(-1), V)
        return self.ot(y.reshape(B, -1))
