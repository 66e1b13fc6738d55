"""Answer drafting for the help desk: local window + retrieved tickets, ONE softmax.

MemoryReader(dim, heads).forward(x, mem, mem_ok)
    x       [B, L, dim]     tokens of the draft, causal among themselves
    mem     [B, M, dim]     encoded tokens of tickets that the search found
    mem_ok  [B, M]          1 = token of a ticket, 0 = filler (M may be all filler)
Local and retrieved tokens have own key/value projections, the logits are put side by
side and normalised together.  A learned bias per head is added to the memory logits.
Scale: 1 / sqrt(dim / heads).  Returns [B, L, dim].
"""
import torch
import torch.nn as nn


class MemoryReader(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv_local = nn.Linear(dim, 2 * dim, bias=False)
        self.kv_mem = nn.Linear(dim, 2 * dim, bias=False)
        self.mem_bias = nn.Parameter(torch.zeros(heads, 1, 1))
        self.o = nn.Linear(dim, dim)

    def forward(self, x, mem, mem_ok):
        B, L, D = x.shape
        h, d = self.h, D // self.h

        def cut(t):
            return t.view(B, -1, h, d).transpose(1, 2)

        q = cut(self.q(x)) * d ** -0.5
        k1, v1 = map(cut, self.kv_local(x).chunk(2, -1))
        k2, v2 = map(cut, self.kv_mem(mem).chunk(2, -1))

        loc = q @ k1.mT
        loc = loc.masked_fill(torch.triu(torch.ones_like(loc[0, 0], dtype=torch.bool), 1), -torch.inf)
        far = q @ k2.mT + self.mem_bias
        far = far.masked_fill((mem_ok == 0)[:, None, None], -torch.inf)

        # every token sees at least itself, so no row is empty
        p = torch.cat([far, loc], dim=-1).softmax(-1)
        M = mem.size(1)
        y = p[..., :M] @ v2 + p[..., M:] @ v1
        return self.o(y.transpose(1, 2).reshape(B, L, D))


def pack_tickets(tickets, size):
    """list of lists of [n_i, dim] tensors (one list per draft) -> mem, mem_ok"""
    dim = next(t.size(1) for ts in tickets for t in ts)
    mem = torch.zeros(len(tickets), size, dim)
    ok = torch.zeros(len(tickets), size, dtype=torch.long)
    for b, ts in enumerate(tickets):
        if ts:
            cat = torch.cat(ts)[:size]
            mem[b, : len(cat)], ok[b, : len(cat)] = cat, 1
    return mem, ok
