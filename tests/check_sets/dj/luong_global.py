"""Effective Approaches to Attention-based NMT (Luong, Pham, Manning, 2015).

Global attention, section 3.1:

    a_t(s) = softmax_s( score(h_t, hbar_s) ),   over the real source words only
    score  = h_t^T hbar_s            'dot'
           = h_t^T W_a hbar_s        'general'
    c_t    = sum_s a_t(s) hbar_s
    h~_t   = tanh(W_c [c_t ; h_t])
    p(y_t) = softmax(W_s h~_t)
"""
import torch
import torch.nn as nn


class GlobalAttention(nn.Module):
    """h (B, T, D) decoder states, hbar (B, S, D) encoder states,
    src_mask (B, S) float, 1.0 for words and 0.0 for <pad>.
    Returns h~ (B, T, D) and the alignments (B, T, S)."""

    def __init__(self, D, method="general"):
        super().__init__()
        assert method in ("dot", "general")
        self.method = method
        if method == "general":
            self.W_a = nn.Linear(D, D, bias=False)
        self.W_c = nn.Linear(2 * D, D, bias=False)

    def score(self, h, hbar):
        if self.method == "general":
            hbar = self.W_a(hbar)
        return h.bmm(hbar.transpose(1, 2))

    def forward(self, h, hbar, src_mask):
        score = self.score(h, hbar)
        score = score * src_mask.unsqueeze(1)
        align = torch.softmax(score, dim=2)
        c = align.bmm(hbar)
        h_tilde = self.W_c(torch.cat([c, h], dim=2))
        return h_tilde, align


class Decoder(nn.Module):
    """LSTM decoder without input feeding (all steps at once).

    y (B, T) target words shifted right, state the (h, c) pair of the encoder LSTM."""

    def __init__(self, vocab, D=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, D)
        self.rnn = nn.LSTM(D, D, batch_first=True)
        self.attn = GlobalAttention(D)
        self.W_s = nn.Linear(D, vocab, bias=False)

    def forward(self, y, state, hbar, src_mask):
        h, state = self.rnn(self.emb(y), state)
        h_tilde, align = self.attn(h, hbar, src_mask)
        return self.W_s(h_tilde), align, state
