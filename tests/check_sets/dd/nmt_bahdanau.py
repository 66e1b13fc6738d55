"""Decoder of the 2015 'jointly learning to align and translate' paper, one GRU layer."""
import torch
import torch.nn as nn


class AlignmentModel(nn.Module):
    """e_ij = v^T tanh(W s_{i-1} + U h_j)"""

    def __init__(self, state_dim, annot_dim, hidden):
        super().__init__()
        self.W = nn.Linear(state_dim, hidden, bias=False)
        self.U = nn.Linear(annot_dim, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, s, annotations, lengths):
        # s: (B, state)   annotations: (B, S, annot)   lengths: (B,), all at least 1
        e = self.v(torch.tanh(self.W(s)[:, None, :] + self.U(annotations))).squeeze(-1)
        steps = torch.arange(annotations.size(1), device=s.device)
        e = e.masked_fill(steps[None, :] >= lengths[:, None], float("-inf"))
        alpha = torch.softmax(e, dim=-1)                       # (B, S)
        c = torch.bmm(alpha.unsqueeze(1), annotations).squeeze(1)
        return c, alpha


class TranslationDecoder(nn.Module):
    def __init__(self, vocab=120, emb=24, state_dim=32, annot_dim=40, hidden=28):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.align = AlignmentModel(state_dim, annot_dim, hidden)
        self.init = nn.Linear(annot_dim, state_dim)
        self.gru = nn.GRUCell(emb + annot_dim, state_dim)
        self.readout = nn.Linear(state_dim + annot_dim + emb, vocab)

    def forward(self, tgt_in, annotations, lengths):
        """tgt_in (B, T) ids, annotations (B, S, annot_dim) -> logits (B, T, vocab), alphas (B, T, S)"""
        s = torch.tanh(self.init(annotations[:, 0]))
        logits, alphas = [], []
        for t in range(tgt_in.size(1)):
            y = self.emb(tgt_in[:, t])
            c, a = self.align(s, annotations, lengths)
            s = self.gru(torch.cat([y, c], dim=-1), s)
            logits.append(self.readout(torch.cat([s, c, y], dim=-1)))
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)
