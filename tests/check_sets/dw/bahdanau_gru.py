"""Bahdanau (additive) attention decoder step with a GRU cell, used by the OCR-to-text model.

step(token, state, memory, lengths)
    token    (B,) int64 ids of the previous symbols
    state    (B, hid) decoder state s_{t-1}
    memory   (B, S, 2*enc) bidirectional encoder states
    lengths  (B,) int64, valid encoder positions per sample, 1 <= lengths <= S
returns logits (B, vocab), new state (B, hid), alpha (B, S).

    e_j = v . tanh(W s_{t-1} + U h_j)          alpha = softmax over the valid j
    c   = sum_j alpha_j h_j                     s_t = GRU([emb; c], s_{t-1})
    logits = readout([s_t; c; emb])
`project(memory)` computes U h_j; call it once per sentence and pass the result as `keys`.
"""
import torch
import torch.nn as nn


class AdditiveStep(nn.Module):
    def __init__(self, vocab, emb, hid, enc, att):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.W = nn.Linear(hid, att, bias=False)
        self.U = nn.Linear(2 * enc, att)
        self.v = nn.Parameter(torch.randn(att) / att ** 0.5)
        self.cell = nn.GRUCell(emb + 2 * enc, hid)
        self.readout = nn.Linear(hid + 2 * enc + emb, vocab)

    def project(self, memory):
        return self.U(memory)

    def step(self, token, state, memory, lengths, keys=None):
        if keys is None:
            keys = self.project(memory)
        energy = torch.tanh(keys + self.W(state)[:, None]) @ self.v        # B, S
        j = torch.arange(memory.size(1), device=memory.device)
        energy = energy.masked_fill(j >= lengths[:, None], float("-inf"))
        alpha = torch.softmax(energy, dim=1)
        ctx = torch.einsum("bs,bsd->bd", alpha, memory)

        x = self.emb(token)
        state = self.cell(torch.cat([x, ctx], dim=1), state)
        return self.readout(torch.cat([state, ctx, x], dim=1)), state, alpha

    def forward(self, tokens, state, memory, lengths):
        """Teacher forcing: tokens (B, T) -> logits (B, T, vocab)."""
        keys, out = self.project(memory), []
        for t in range(tokens.size(1)):
            y, state, _ = self.step(tokens[:, t], state, memory, lengths, keys)
            out.append(y)
        return torch.stack(out, dim=1)
