import torch
import torch.nn as nn


class Glance(nn.Module):
    def __init__(self, n_state, n_mem, n_hid):
        super().__init__()
        self.Ws = nn.Linear(n_state, n_hid, bias=False)
        self.Wm = nn.Linear(n_mem, n_hid)
        self.v = nn.Linear(n_hid, 1, bias=False)

    def forward(self, state, mem, mem_h, blank):
        e = self.v(torch.tanh(self.Ws(state)[:, None] + mem_h))[..., 0]
        e = e.masked_fill(blank, float("-inf"))
        a = torch.softmax(e, 1)
        return torch.bmm(a[:, None], mem)[:, 0], a


class SmartReply(nn.Module):
    """Writes a reply to a message, teacher-forced.

    words (B, T, E) embedded reply so far; mem (B, S, M) encoded message; sizes (B,) >= 1.
    -> states (B, T, N), glances (B, T, S)
    """

    def __init__(self, E=8, M=10, N=12, hid=9):
        super().__init__()
        self.N = N
        self.glance = Glance(N, M, hid)
        self.cell = nn.GRUCell(E + M, N)
        self.start = nn.Linear(M, N)

    def forward(self, words, mem, sizes):
        blank = torch.arange(mem.size(1), device=mem.device) >= sizes[:, None]
        mean = mem.masked_fill(blank[..., None], 0).sum(1) / sizes[:, None]
        h = torch.tanh(self.start(mean))
        mem_h = self.glance.Wm(mem)
        hs, As = [], []
        for x in words.unbind(1):
            ctx, a = self.glance(h, mem, mem_h, blank)
            h = self.cell(torch.cat([x, ctx], -1), h)
            hs.append(h)
            As.append(a)
        return torch.stack(hs, 1), torch.stack(As, 1)
