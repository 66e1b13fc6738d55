"""One decoder layer's attentions for beam search, without copying the source per beam.

Rows are ordered sentence-major: row b * K + j is beam j of sentence b.  The source keys and
values exist once per sentence; the K beams of a sentence are treated like K query tokens.
"""
import torch
import torch.nn as nn


class BeamLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.self_qkv = nn.Linear(dim, 3 * dim)        # q | k | v, heads inside each
        self.self_out = nn.Linear(dim, dim)
        self.src_q = nn.Linear(dim, dim)
        self.src_kv = nn.Linear(dim, 2 * dim)          # k | v
        self.src_out = nn.Linear(dim, dim)

    def start(self, src, src_keep):
        """src (B, S, dim); src_keep (B, S) bool, True = a real word (at least one per row)."""
        b, s, dim = src.shape
        k, v = self.src_kv(src).view(b, s, 2, self.heads, -1).unbind(2)
        return {"sk": k, "sv": v, "keep": src_keep, "k": None, "v": None}

    def step(self, x, state):
        """x (B*K, dim): the newest token of each beam.  Returns (B*K, dim); state grows."""
        n, dim = x.shape
        h = self.heads
        d = dim // h
        q, k, v = self.self_qkv(x).view(n, 3, h, d).unbind(1)
        k, v = k.unsqueeze(1), v.unsqueeze(1)
        if state["k"] is not None:
            k = torch.cat([state["k"], k], 1)
            v = torch.cat([state["v"], v], 1)
        state["k"], state["v"] = k, v
        a = torch.einsum("nhd,nthd->nht", q, k).div(d ** 0.5).softmax(-1)
        y = torch.einsum("nht,nthd->nhd", a, v).reshape(n, dim)
        x = x + self.self_out(y)

        b = state["sk"].shape[0]
        q = self.src_q(x).view(b, n // b, h, d)
        e = torch.einsum("bjhd,bshd->bhjs", q, state["sk"]) / d ** 0.5
        e = e.masked_fill(~state["keep"][:, None, None, :], float("-inf"))
        y = torch.einsum("bhjs,bshd->bjhd", e.softmax(-1), state["sv"])
        return x + self.src_out(y.reshape(n, dim))

    @staticmethod
    def reorder(state, parent):
        """parent (B, K) int64: new beam j of sentence b goes on from old beam parent[b, j].
        Returns a new state; the source side needs no reordering."""
        b, beams = parent.shape
        rows = (parent + torch.arange(b)[:, None] * beams).flatten()
        return {**state, "k": state["k"][rows], "v": state["v"][rows]}
