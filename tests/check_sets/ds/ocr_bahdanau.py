"""Attention decoder for line OCR: GRU + Bahdanau, one character per step."""
import torch
from torch import nn


class OCRDecoder(nn.Module):
    """Teacher-forced decoder.

    columns  (B, T, E)      feature columns of the line image, left to right
    widths   (B,) int64     real columns of every line, 1 .. T; the rest is padding
    chars    (B, N) int64   gold characters, chars[:, 0] is <bos>
    returns  logits (B, N, vocab) and weights (B, N, T)

    Step n: from the GRU state s_{n-1} we get
        e_t = w . tanh(W s_{n-1} + U columns_t + b)
        a   = softmax of e over the real columns
        c_n = sum_t a_t columns_t
    the GRU eats [embedding(chars_n), c_n], the logits are read from [s_n, c_n].
    s_{-1} is zero.
    """

    def __init__(self, E, S, vocab, A=64, emb=32):
        super().__init__()
        self.S = S
        self.emb = nn.Embedding(vocab, emb)
        self.gru = nn.GRUCell(emb + E, S)
        self.W = nn.Linear(S, A)
        self.U = nn.Linear(E, A, bias=False)
        self.w = nn.Linear(A, 1, bias=False)
        self.read = nn.Linear(S + E, vocab)

    def look(self, s, columns, projected, real):
        e = self.w(torch.tanh(self.W(s)[:, None] + projected)).squeeze(-1)
        a = torch.softmax(e, dim=1) * real
        # the sum over the padding is divided out again
        a = a / a.sum(1, keepdim=True).clamp_min(1e-12)
        return a, torch.bmm(a[:, None], columns).squeeze(1)

    def forward(self, columns, widths, chars):
        B, T, _ = columns.shape
        real = (torch.arange(T, device=columns.device)[None] < widths[:, None]).to(columns.dtype)
        projected = self.U(columns)                      # once per line
        s = columns.new_zeros(B, self.S)
        logits, weights = [], []
        for n in range(chars.size(1)):
            a, c = self.look(s, columns, projected, real)
            s = self.gru(torch.cat([self.emb(chars[:, n]), c], -1), s)
            logits.append(self.read(torch.cat([s, c], -1)))
            weights.append(a)
        return torch.stack(logits, 1), torch.stack(weights, 1)
