"""Explains plant alarms in words: GRU decoder over the encoded alarm log (Bahdanau attention)."""
import torch
from torch import nn


class LogExplainer(nn.Module):
    def __init__(self, vocab=40, log_dim=12, hidden=24):
        super().__init__()
        self.hidden = hidden
        self.encoder = nn.GRU(log_dim, hidden, batch_first=True)
        self.embed = nn.Embedding(vocab, hidden)
        self.w_query = nn.Linear(hidden, hidden, bias=False)
        self.w_memory = nn.Linear(hidden, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)
        self.cell = nn.GRUCell(2 * hidden, hidden)
        self.out = nn.Linear(2 * hidden, vocab)

    def look(self, state, memory):
        """state (B, hidden), memory (B, T, hidden) -> context (B, hidden), weights (B, T)"""
        energy = self.v(self.w_query(state).unsqueeze(1) + self.w_memory(memory)).squeeze(-1)
        weights = torch.softmax(energy, dim=1)
        return torch.einsum("bt,bth->bh", weights, memory), weights

    def forward(self, log, words):
        """log (B, T, log_dim), words (B, L) teacher forcing -> logits (B, L, vocab)"""
        memory, last = self.encoder(log)
        state = last[0]
        logits = []
        for tok in self.embed(words).unbind(1):
            context, _ = self.look(state, memory)
            state = self.cell(torch.cat([tok, context], dim=-1), state)
            logits.append(self.out(torch.cat([state, context], dim=-1)))
        return torch.stack(logits, dim=1)
