"""Location-sensitive attention of Tacotron 2 (Chorowski et al. 2015).

    query   (B, Dq)      attention-RNN state
    memory  (B, T, Dm)   encoder output
    pad     (B, T) bool  True on padding (every item has a real frame)

Call start(memory, pad) once per utterance, then step(query) per decoder frame.  step returns
(context (B, Dm), weights (B, T)).

    e_j = v . tanh( W query + V memory_j + U f_j ),  f = conv1d over [last weights; cumulated weights]

"Cumulated" means the sum over all earlier steps; both are zero at the first step.
"""
import torch
from torch import nn


class LocationSensitive(nn.Module):
    def __init__(self, dq, dm, att=16, filters=4, kernel=5):
        super().__init__()
        self.W = nn.Linear(dq, att, bias=False)
        self.V = nn.Linear(dm, att, bias=False)
        self.U = nn.Linear(filters, att, bias=False)
        self.conv = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)
        self.v = nn.Linear(att, 1)

    def start(self, memory, pad):
        self.memory, self.pad = memory, pad
        self.keys = self.V(memory)
        self.last = memory.new_zeros(memory.shape[:2])
        self.total = memory.new_zeros(memory.shape[:2])

    def step(self, query):
        f = self.conv(torch.stack([self.last, self.total], dim=1)).transpose(1, 2)
        e = self.v(torch.tanh(self.W(query).unsqueeze(1) + self.keys + self.U(f))).squeeze(-1)
        w = torch.softmax(e.masked_fill(self.pad, -float("inf")), dim=1)
        self.last = w
        self.total = self.total + w
        return torch.einsum("bt,btd->bd", w, self.memory), w
