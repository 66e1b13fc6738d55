"""Bahdanau decoder: additive attention, GRU and a maxout readout."""
import torch
from torch import nn


class AdditiveAttention(nn.Module):
    def __init__(self, dim_state, dim_memory, dim_attn):
        super().__init__()
        self.W = nn.Linear(dim_state, dim_attn, bias=False)
        self.U = nn.Linear(dim_memory, dim_attn)
        self.v = nn.Linear(dim_attn, 1, bias=False)

    def precompute(self, memory):
        return self.U(memory)

    def forward(self, state, memory, projected, valid):
        """state [B, Ds], memory [B, S, Dm], projected [B, S, Da], valid [B, S]"""
        e = self.v(torch.tanh(self.W(state).unsqueeze(1) + projected)).squeeze(-1)
        e = torch.where(valid, e, torch.full_like(e, torch.finfo(e.dtype).min))
        a = torch.softmax(e, dim=-1)
        return (a.unsqueeze(-1) * memory).sum(1), a


class Seq2SeqDecoder(nn.Module):
    """memory: bidirectional encoder states [B, S, 2 * hidden]."""

    def __init__(self, vocab=36, emb=12, hidden=16, dim_attn=14, bos=1):
        super().__init__()
        self.bos = bos
        self.embedding = nn.Embedding(vocab, emb)
        self.bridge = nn.Linear(hidden, hidden)
        self.attention = AdditiveAttention(hidden, 2 * hidden, dim_attn)
        self.gru = nn.GRUCell(emb + 2 * hidden, hidden)
        self.readout = nn.Linear(hidden + emb + 2 * hidden, 2 * hidden)
        self.logits = nn.Linear(hidden, vocab, bias=False)

    def step(self, prev, state, memory, projected, valid):
        y = self.embedding(prev)
        context, align = self.attention(state, memory, projected, valid)
        state = self.gru(torch.cat([y, context], -1), state)
        t = self.readout(torch.cat([state, y, context], -1))
        t = t.view(t.size(0), -1, 2).amax(-1)          # maxout
        return self.logits(t), state, align

    def forward(self, memory, valid, targets):
        """Teacher forced: targets [B, T] -> logits [B, T, V], alignment [B, T, S]."""
        backward_first = memory[:, 0, memory.size(-1) // 2:]
        state = torch.tanh(self.bridge(backward_first))
        projected = self.attention.precompute(memory)
        start = torch.full_like(targets[:, :1], self.bos)
        inputs = torch.cat([start, targets[:, :-1]], dim=1)
        outs, aligns = [], []
        for t in range(inputs.size(1)):
            o, state, a = self.step(inputs[:, t], state, memory, projected, valid)
            outs.append(o)
            aligns.append(a)
        return torch.stack(outs, 1), torch.stack(aligns, 1)

    @torch.no_grad()
    def greedy(self, memory, valid, steps=10):
        state = torch.tanh(self.bridge(memory[:, 0, memory.size(-1) // 2:]))
        projected = self.attention.precompute(memory)
        y = torch.full((memory.size(0),), self.bos, device=memory.device)
        out = []
        for _ in range(steps):
            o, state, _ = self.step(y, state, memory, projected, valid)
            y = o.argmax(-1)
            out.append(y)
        return torch.stack(out, 1)
