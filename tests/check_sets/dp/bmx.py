"""bmx: decoder layer for beam search in an enc-dec model; rows = sentence*beam.

Row r belongs to sentence r // K (K beams).  The cross keys/values are computed
once per *sentence* and shared by its K rows; self keys/values are per row, and
after each search step all of them follow the surviving parents.

``Bmx(D, h)``
    start(mem, mmsk, K) -> c     mem (S, L, D); mmsk (S, L) 1 = real, 0 = pad
                                 (at least one real token per sentence)
    step(x, c) -> (y, c)         x, y (S*K, D), the newest token of every row
    pick(c, par) -> c            par (S*K,) long, row index of each new row's parent
                                 (within the same sentence)
Logits / sqrt(D/h) in both attentions; pre-norm, residual sums.
"""
import torch
from torch import nn


class Bmx(nn.Module):
    def __init__(self, D, h):
        super().__init__()
        self.h, self.e = h, D // h
        self.n1, self.n2, self.n3 = (nn.LayerNorm(D) for _ in range(3))
        self.sq, self.sk, self.sv, self.so = (nn.Linear(D, D) for _ in range(4))
        self.cq, self.ck, self.cv, self.co = (nn.Linear(D, D) for _ in range(4))
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def start(self, mem, mmsk, K):
        S, L, _ = mem.shape
        xk = self.ck(mem).view(S, L, self.h, self.e)
        xv = self.cv(mem).view(S, L, self.h, self.e)
        add = torch.zeros(S, L, dtype=mem.dtype, device=mem.device)
        add = add.masked_fill(mmsk == 0, torch.finfo(mem.dtype).min)
        z = mem.new_zeros(S * K, 0, self.h, self.e)
        return {"xk": xk, "xv": xv, "add": add, "k": z, "v": z, "K": K}

    def step(self, x, c):
        R = x.size(0)
        u = self.n1(x)
        k = torch.cat([c["k"], self.sk(u).view(R, 1, self.h, self.e)], 1)
        v = torch.cat([c["v"], self.sv(u).view(R, 1, self.h, self.e)], 1)
        q = self.sq(u).view(R, self.h, self.e) * self.e ** -0.5
        a = torch.einsum("rhe,rthe->rht", q, k).softmax(-1)
        x = x + self.so(torch.einsum("rht,rthe->rhe", a, v).flatten(1))
        # cross: beams of a sentence are the query axis
        q = self.cq(self.n2(x)).view(-1, c["K"], self.h, self.e) * self.e ** -0.5
        a = torch.einsum("skhe,slhe->shkl", q, c["xk"]) + c["add"][:, None, None, :]
        o = torch.einsum("shkl,slhe->skhe", a.softmax(-1), c["xv"]).reshape(R, -1)
        x = x + self.co(o)
        return x + self.ff(self.n3(x)), {**c, "k": k, "v": v}

    def pick(self, c, par):
        return {**c, "k": c["k"].index_select(0, par), "v": c["v"].index_select(0, par)}
