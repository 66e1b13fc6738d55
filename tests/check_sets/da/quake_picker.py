import torch
from torch import nn


class PhasePicker(nn.Module):
    """Recurrent picker with additive attention over the encoded trace.

    trace (B, T, enc); lengths (B,) >= 1; returns picks (B, steps, 1), maps (B, steps, T)
    """

    def __init__(self, enc=12, hid=10, att=14, steps=3):
        super().__init__()
        self.steps, self.hid = steps, hid
        self.cell = nn.GRUCell(enc, hid)
        self.from_state = nn.Linear(hid, att, bias=False)
        self.from_trace = nn.Linear(enc, att)
        self.energy = nn.Linear(att, 1, bias=False)
        self.pick = nn.Linear(hid + enc, 1)

    def look(self, h, trace, dead):
        e = self.from_state(h).unsqueeze(1) + self.from_trace(trace)
        e = self.energy(e).squeeze(2)
        a = e.masked_fill(dead, float("-inf")).softmax(dim=1)
        return torch.einsum("bt,bte->be", a, trace), a

    def forward(self, trace, lengths):
        dead = torch.arange(trace.size(1), device=trace.device)[None] >= lengths[:, None]
        h = trace.new_ones(trace.size(0), self.hid)
        picks, maps = [], []
        for _ in range(self.steps):
            c, a = self.look(h, trace, dead)
            h = self.cell(c, h)
            picks.append(self.pick(torch.cat([h, c], dim=1)))
            maps.append(a)
        return torch.stack(picks, 1), torch.stack(maps, 1)
