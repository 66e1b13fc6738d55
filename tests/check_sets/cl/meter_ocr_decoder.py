"""Reading the digits of analogue water meters: CNN encoder, GRU decoder with
additive (Bahdanau) attention over the image columns."""

import torch
import torch.nn as nn


class AdditiveAttention(nn.Module):
    def __init__(self, enc_dim, dec_dim, att_dim):
        super().__init__()
        self.w_enc = nn.Linear(enc_dim, att_dim)
        self.w_dec = nn.Linear(dec_dim, att_dim, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def forward(self, state, columns, valid):
        """state (B, D), columns (B, T, E), valid (B, T) bool, True = real column."""
        energy = self.v(torch.tanh(self.w_dec(state).unsqueeze(1) + self.w_enc(columns)))
        energy = energy.squeeze(-1).masked_fill(valid.logical_not(), -torch.inf)
        alpha = energy.softmax(1)
        context = (alpha.unsqueeze(-1) * columns).sum(1)
        return context, alpha


class DigitDecoder(nn.Module):
    """Greedy decoder. `widths` is the number of real columns of each image (>= 1)."""

    def __init__(self, enc_dim=24, dec_dim=32, n_digits=11, steps=5):
        super().__init__()
        self.emb = nn.Embedding(n_digits + 1, 16)
        self.cell = nn.GRUCell(16 + enc_dim, dec_dim)
        self.att = AdditiveAttention(enc_dim, dec_dim, 32)
        self.out = nn.Linear(dec_dim + enc_dim, n_digits)
        self.start = n_digits
        self.steps = steps
        self.dec_dim = dec_dim

    def forward(self, columns, widths):
        B, T, _ = columns.shape
        valid = torch.arange(T, device=columns.device)[None, :] < widths[:, None]
        h = columns.new_zeros(B, self.dec_dim)
        y = torch.full((B,), self.start, dtype=torch.long, device=columns.device)
        logits, alphas = [], []
        for _ in range(self.steps):
            ctx, a = self.att(h, columns, valid)
            h = self.cell(torch.cat([self.emb(y), ctx], dim=-1), h)
            o = self.out(torch.cat([h, ctx], dim=-1))
            y = o.argmax(-1)
            logits.append(o)
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)
