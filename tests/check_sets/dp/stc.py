"""stc = static cache, gqa, chunked prefill + decode through one code path.

``Stc(D, nq, nkv, mx, bs)``: nq query heads, nkv kv heads (nq = g * nkv); query head i
belongs to kv head i // g.  Buffers for bs sequences of at most mx tokens.

fwd(x, at)
    x  : (bs, T, D) new tokens; T = 1 when generating
    at : (bs,) long, tokens already cached per sequence (sequences may differ)
returns (bs, T, D).  Token t of sequence b sits at position at[b] + t, is written
there and reads positions 0 .. at[b] + t of its own sequence.  Scale d ** -.5.
"""
import torch
import torch.nn as nn


class Stc(nn.Module):
    def __init__(self, D, nq, nkv, mx, bs):
        super().__init__()
        self.nq, self.nkv, self.d = nq, nkv, D // nq
        self.wq = nn.Linear(D, nq * self.d, bias=False)
        self.wkv = nn.Linear(D, 2 * nkv * self.d, bias=False)
        self.wo = nn.Linear(nq * self.d, D, bias=False)
        self.register_buffer("ck", torch.zeros(bs, mx, nkv, self.d))
        self.register_buffer("cv", torch.zeros(bs, mx, nkv, self.d))

    @torch.no_grad()
    def fwd(self, x, at):
        b, T, _ = x.shape
        g = self.nq // self.nkv
        q = self.wq(x).view(b, T, self.nkv, g, self.d)
        k, v = self.wkv(x).view(b, T, 2, self.nkv, self.d).unbind(2)
        pos = at[:, None] + torch.arange(T, device=x.device)           # (b, T)
        row = torch.arange(b, device=x.device)[:, None]
        self.ck[row, pos] = k
        self.cv[row, pos] = v
        top = int(pos.max()) + 1
        K, V = self.ck[:, :top], self.cv[:, :top]
        w = torch.einsum("btngd,bsnd->bngts", q, K) * self.d ** -.5
        see = torch.arange(top, device=x.device) <= pos[..., None]     # (b, T, top)
        w = w.masked_fill(~see[:, None, None], -torch.inf).softmax(-1)
        o = torch.einsum("bngts,bsnd->btngd", w, V)
        return self.wo(o.reshape(b, T, -1))
