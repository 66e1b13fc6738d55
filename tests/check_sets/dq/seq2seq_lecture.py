"""Lecture 12 hand-out: the complete encoder-decoder transformer.

PyTorch's nn.MultiheadAttention with its default layout, (length, batch, dim).
Everything in this file is time-first, ids included.
"""
import torch
import torch.nn as nn

PAD = 0


class Layer(nn.Module):
    """Encoder layer; with cross=True a decoder layer."""

    def __init__(self, d, h, cross):
        super().__init__()
        self.self_att = nn.MultiheadAttention(d, h)
        self.cross_att = nn.MultiheadAttention(d, h) if cross else None
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))

    def forward(self, x, pad, future=None, mem=None, mem_pad=None):
        # all masks: True = must not be attended to
        n = self.norms[0](x)
        x = x + self.self_att(n, n, n, key_padding_mask=pad, attn_mask=future,
                              need_weights=False)[0]
        if self.cross_att is not None:
            n = self.norms[1](x)
            x = x + self.cross_att(n, mem, mem, key_padding_mask=mem_pad,
                                   need_weights=False)[0]
        return x + self.ff(self.norms[2](x))


class Translator(nn.Module):
    """src (S, B), tgt (T, B) token ids, 0 = padding at the end -> logits (T, B, vocab).

    tgt starts with a real <s> token and every src has at least one real token. Logits
    at step t depend on tgt[:t+1] and on all real source tokens; padding is never read.
    """

    def __init__(self, vocab, d=32, h=4, layers=2, max_len=40):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(0.1 * torch.randn(max_len, 1, d))
        self.enc = nn.ModuleList(Layer(d, h, False) for _ in range(layers))
        self.dec = nn.ModuleList(Layer(d, h, True) for _ in range(layers))
        self.enc_norm, self.dec_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab)

    def forward(self, src, tgt):
        src_pad, tgt_pad = (src == PAD).T, (tgt == PAD).T          # (B, S), (B, T)
        T = tgt.shape[0]
        future = torch.ones(T, T, dtype=torch.bool, device=tgt.device).triu(1)

        m = self.tok(src) + self.pos[: src.shape[0]]
        for layer in self.enc:
            m = layer(m, src_pad)
        m = self.enc_norm(m)

        y = self.tok(tgt) + self.pos[:T]
        for layer in self.dec:
            y = layer(y, tgt_pad, future, m, src_pad)
        return self.head(self.dec_norm(y))
