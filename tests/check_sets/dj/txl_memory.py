"""Segment-level recurrence of Transformer-XL (Dai et al., 2019), section 3.2.

    h~_{t+1} = [ SG(h_t) ; h_{t+1} ]             memory of M states, then the segment
    q = h_{t+1} W_q,  k = h~_{t+1} W_k,  v = h~_{t+1} W_v

Token i of the segment reads the whole memory and the tokens 0..i of its own segment.
(The relative encodings of section 3.3 live in another file.)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RecurrentAttention(nn.Module):
    """h (B, T, D) the segment, mem (B, M, D) hidden states of the last segment (M may be
    0). Returns (B, T, D), residual and norm included. Dropout acts in training only."""

    def __init__(self, D=32, heads=4, p_attn=0.1):
        super().__init__()
        self.n, self.d, self.p_attn = heads, D // heads, p_attn
        self.W_q = nn.Linear(D, D, bias=False)
        self.W_kv = nn.Linear(D, 2 * D, bias=False)
        self.W_o = nn.Linear(D, D, bias=False)
        self.norm = nn.LayerNorm(D)

    def forward(self, h, mem):
        B, T, D = h.shape
        cat = torch.cat([mem.detach(), h], dim=1)
        S = cat.size(1)
        q = self.W_q(h).view(B, T, self.n, self.d)
        k, v = self.W_kv(cat).view(B, S, 2, self.n, self.d).unbind(2)

        score = torch.einsum("bind,bjnd->bnij", q, k) * (1 / self.d ** 0.5)
        visible = torch.ones(T, S, dtype=torch.bool, device=h.device).tril()
        score = score.masked_fill(~visible, float("-inf"))
        prob = F.dropout(F.softmax(score, dim=3), self.p_attn)
        out = torch.einsum("bnij,bjnd->bind", prob, v).reshape(B, T, D)
        return self.norm(h + self.W_o(out))


class TinyXL(nn.Module):
    """forward(segment (B, T) long, mems list of (B, M, D) or None) -> logits, new mems"""

    def __init__(self, vocab, D=32, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, D)
        self.layers = nn.ModuleList(RecurrentAttention(D) for _ in range(layers))
        self.out = nn.Linear(D, vocab)

    def forward(self, seg, mems=None):
        h = self.emb(seg)
        if mems is None:
            mems = [h.new_zeros(h.size(0), 0, h.size(2))] * len(self.layers)
        new = []
        for layer, mem in zip(self.layers, mems):
            new.append(h.detach())
            h = layer(h, mem)
        return self.out(h), new
