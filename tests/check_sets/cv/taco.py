import torch
import torch.nn as nn
import torch.nn.functional as F


class LSA(nn.Module):
    """Location sensitive attention of Tacotron 2.

        e_j = w^T tanh(W s + V h_j + U f_j + b),   f = conv1d([previous weights; cumulated weights])

    init(memory, lengths) is called once for an utterance, then step(s) for each decoder frame.
    memory (B, T, enc); lengths (B,) at least 1; s (B, dec). step -> context (B, enc), weights (B, T).
    forward() runs all decoder states (B, N, dec) in order: contexts (B, N, enc), weights (B, N, T).
    """

    def __init__(self, enc=20, dec=14, dim=16, filters=6, kernel=7):
        super().__init__()
        self.W = nn.Linear(dec, dim, bias=False)
        self.V = nn.Linear(enc, dim, bias=True)
        self.U = nn.Linear(filters, dim, bias=False)
        self.conv = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)
        self.w = nn.Linear(dim, 1, bias=False)

    def init(self, memory, lengths):
        B, T, _ = memory.shape
        self.memory = memory
        self.pm = self.V(memory)
        self.pad = torch.arange(T)[None] >= lengths[:, None]
        self.prev = memory.new_zeros(B, T)
        self.cum = memory.new_zeros(B, T)

    def step(self, s):
        f = self.conv(torch.stack((self.prev, self.cum), 1)).mT            # B T filters
        e = self.w(torch.tanh(self.W(s)[:, None] + self.pm + self.U(f)))[..., 0]
        e = torch.where(self.pad, torch.full_like(e, -torch.inf), e)
        a = F.softmax(e, 1)
        self.prev = a
        self.cum = self.cum + a
        return torch.bmm(a[:, None], self.memory)[:, 0], a

    def forward(self, memory, lengths, states):
        self.init(memory, lengths)
        c, a = zip(*(self.step(s) for s in states.unbind(1)))
        return torch.stack(c, 1), torch.stack(a, 1)
