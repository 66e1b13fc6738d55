"""Location sensitive attention of Tacotron 2, decoder side.

    e_j = v^T tanh(W s + V h_j + U f_j),   f = F * cumulative_alignment

Written for Turkish TTS experiments.  `start(memory, lengths)` must be called once per
utterance, `step(query)` once per mel frame.  The cumulative alignment begins with zeros.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LocationSensitiveAttention(nn.Module):
    def __init__(self, query_dim=32, memory_dim=24, att_dim=16, n_filters=6, kernel=7):
        super().__init__()
        self.W = nn.Linear(query_dim, att_dim, bias=False)
        self.V = nn.Linear(memory_dim, att_dim, bias=False)
        self.U = nn.Linear(n_filters, att_dim, bias=False)
        self.conv = nn.Conv1d(1, n_filters, kernel, padding=kernel // 2, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)
        self.memory = self.processed = self.cumulative = self.pad = None

    def start(self, memory, lengths=None):
        """bellek: (B, T, M); lengths: (B,) gerçek karakter sayısı"""
        self.memory = memory
        self.processed = self.V(memory)
        self.cumulative = memory.new_zeros(memory.shape[:2])
        if lengths is None:
            self.pad = None
        else:
            t = torch.arange(memory.size(1), device=memory.device)
            self.pad = t[None] >= lengths[:, None]

    def step(self, query):
        loc = self.U(self.conv(self.cumulative.unsqueeze(1)).transpose(1, 2))
        e = self.v(torch.tanh(self.W(query).unsqueeze(1) + self.processed + loc)).squeeze(-1)
        if self.pad is not None:
            e = e.masked_fill(self.pad, float("-inf"))
        align = F.softmax(e, dim=1)
        self.cumulative = self.cumulative + align
        context = (align.unsqueeze(1) @ self.memory).squeeze(1)
        return context, align

    def forward(self, queries, memory, lengths=None):
        """Öğretmen zorlamalı: queries (B, N, Q) -> context (B, N, M), align (B, N, T)"""
        self.start(memory, lengths)
        pairs = [self.step(q) for q in queries.unbind(1)]
        return torch.stack([c for c, _ in pairs], 1), torch.stack([a for _, a in pairs], 1)


if __name__ == "__main__":
    lsa = LocationSensitiveAttention()
    ctx, al = lsa(torch.randn(2, 5, 32), torch.randn(2, 9, 24), torch.tensor([9, 6]))
    print(ctx.shape, al.sum(-1))
