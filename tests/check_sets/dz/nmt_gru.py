"""GRU decoder with Bahdanau attention for a small translation course.

One step:
    y_prev   (B,)        previous target word
    state    (B, H)      decoder state s_{t-1}
    memory   (B, S, E)   encoder outputs h_1..h_S
    valid    (B, S)      bool, True = real source word, False = padding
    returns  logits (B, V), new state (B, H), alpha (B, S)

    e_j = v^T tanh( W s_{t-1} + U h_j ),   alpha = softmax of e over the real source words
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BahdanauAttention(nn.Module):
    def __init__(self, hid, enc, att):
        super().__init__()
        self.W = nn.Linear(hid, att)
        self.U = nn.Linear(enc, att, bias=False)
        self.v = nn.Linear(att, 1, bias=False)

    def forward(self, s, memory, valid):
        query = self.W(s).unsqueeze(1)
        energy = self.v(query + self.U(memory)).squeeze(-1)
        energy.masked_fill(~valid, float("-inf"))
        alpha = F.softmax(energy, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), memory).squeeze(1)
        return context, alpha


class GRUDecoder(nn.Module):
    def __init__(self, vocab=50, emb=16, hid=24, enc=20, att=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.attention = BahdanauAttention(hid, enc, att)
        self.cell = nn.GRUCell(emb + enc, hid)
        self.out = nn.Linear(hid + enc + emb, vocab)

    def forward(self, y_prev, state, memory, valid):
        e = self.emb(y_prev)
        context, alpha = self.attention(state, memory, valid)
        state = self.cell(torch.cat([e, context], dim=-1), state)
        return self.out(torch.cat([state, context, e], dim=-1)), state, alpha
