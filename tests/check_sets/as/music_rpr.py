"""Relative global attention of the Music Transformer (Huang et al., 2018), with the
memory-efficient "skewing" of section 3.4.1."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKEN_PAD = 0


class RelativeGlobalAttention(nn.Module):
    """
    Causal. `Er` holds one vector for each distance and head; the last row is distance 0,
    the row before it distance 1, and so on up to max_seq - 1.
    """

    def __init__(self, h=4, d=64, max_seq=128, dropout=0.0):
        super().__init__()
        self.max_seq = max_seq
        self.h, self.dh = h, d // h
        self.Wq, self.Wk, self.Wv, self.fc = (nn.Linear(d, d) for _ in range(4))
        self.Er = nn.Parameter(torch.randn(h, max_seq, self.dh) * 0.1)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad=None):
        """x (B, L, d); pad (B, L) bool, True at padding tokens."""
        B, L, _ = x.shape
        if L > self.max_seq:
            raise ValueError(f"sequence of {L} events, at most {self.max_seq}")
        q, k, v = [w(x).view(B, L, self.h, self.dh).permute(0, 2, 1, 3) for w in (self.Wq, self.Wk, self.Wv)]

        Er = self.Er[:, self.max_seq - L :, :]
        srel = self._skew(torch.einsum("bhld,hmd->bhlm", q, Er))
        logits = (q @ k.mT + srel) / math.sqrt(self.dh)

        hide = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        if pad is not None:
            # a padding row still sees itself, so no row is left empty
            hide = hide | (pad[:, None, :] & ~torch.eye(L, dtype=torch.bool, device=x.device))
            hide = hide.unsqueeze(1)
        logits = logits.masked_fill(hide, float("-inf"))
        a = self.drop(F.softmax(logits, -1))
        return self.fc((a @ v).permute(0, 2, 1, 3).reshape(B, L, -1))

    @staticmethod
    def _skew(qe):
        """(B, h, L, L) indexed [i, m] -> [i, j] with j = i - (L - 1 - m); what lies above the diagonal is noise."""
        B, h, L, _ = qe.shape
        qe = F.pad(qe, (1, 0))
        return qe.reshape(B, h, L + 1, L)[:, :, 1:, :]


class MusicLayer(nn.Module):
    def __init__(self, d, h, dff, max_seq, dropout):
        super().__init__()
        self.rga = RelativeGlobalAttention(h, d, max_seq, dropout)
        self.ff = nn.Sequential(nn.Linear(d, dff), nn.ReLU(), nn.Linear(dff, d), nn.Dropout(dropout))
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, pad=None):
        x = self.ln1(x + self.rga(x, pad))
        return self.ln2(x + self.ff(x))


class MusicTransformer(nn.Module):
    def __init__(self, vocab=391, d=64, h=4, n_layer=2, dff=128, max_seq=128, dropout=0.1):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=TOKEN_PAD)
        self.layers = nn.ModuleList(MusicLayer(d, h, dff, max_seq, dropout) for _ in range(n_layer))
        self.Wout = nn.Linear(d, vocab)

    def forward(self, events):
        pad = events.eq(TOKEN_PAD)
        x = self.emb(events)
        for layer in self.layers:
            x = layer(x, pad)
        return self.Wout(x)

    @torch.no_grad()
    def continue_piece(self, primer, n):
        self.eval()
        seq = primer
        for _ in range(n):
            p = self(seq)[:, -1, 1:].softmax(-1)
            seq = torch.cat([seq, 1 + torch.multinomial(p, 1)], 1)
        return seq
