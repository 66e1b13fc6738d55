"""Attention decoder of the grapheme-to-mel synthesiser.

``AlignedDecoder`` unrolls a GRU cell with additive (Bahdanau) attention over
the encoder states.  Besides the mel frames it gives the attention weights
[B, frames, chars], which the training script plots as the alignment and which
the duration extractor sums over frames; each frame's weights sum to 1.
"""
import torch
from torch import nn


class AdditiveAttention(nn.Module):
    def __init__(self, query_dim, key_dim, hidden):
        super().__init__()
        self.query = nn.Linear(query_dim, hidden, bias=False)
        self.key = nn.Linear(key_dim, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def project(self, memory):
        return self.key(memory)

    def forward(self, state, memory, keys, lengths):
        # state [B, Q]; memory [B, S, K]; keys [B, S, H]; lengths [B]
        energy = self.v(torch.tanh(self.query(state).unsqueeze(1) + keys)).squeeze(-1)
        idx = torch.arange(memory.size(1), device=memory.device)
        energy = energy.masked_fill(idx[None] >= lengths[:, None], -1e9)
        align = torch.softmax(energy, dim=1)
        context = torch.bmm(align.unsqueeze(1), memory).squeeze(1)
        return context, energy


class AlignedDecoder(nn.Module):
    def __init__(self, mel=20, enc=32, state=48, hidden=24):
        super().__init__()
        self.mel = mel
        self.state = state
        self.prenet = nn.Sequential(nn.Linear(mel, enc), nn.ReLU(), nn.Linear(enc, enc), nn.ReLU())
        self.cell = nn.GRUCell(enc + enc, state)
        self.attention = AdditiveAttention(state, enc, hidden)
        self.frame = nn.Linear(state + enc, mel)

    def forward(self, memory, lengths, targets):
        """Teacher forcing: memory [B, S, enc], targets [B, F, mel]."""
        b, f, _ = targets.shape
        h = memory.new_zeros(b, self.state)
        ctx = memory.new_zeros(b, memory.size(2))
        prev = memory.new_zeros(b, self.mel)
        keys = self.attention.project(memory)
        frames, weights = [], []
        for t in range(f):
            h = self.cell(torch.cat([self.prenet(prev), ctx], dim=-1), h)
            ctx, w = self.attention(h, memory, keys, lengths)
            frames.append(self.frame(torch.cat([h, ctx], dim=-1)))
            weights.append(w)
            prev = targets[:, t]
        return torch.stack(frames, 1), torch.stack(weights, 1)
