"""Relative global attention (Music Transformer, Huang et al. 2018) for MIDI event generation."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def skew(qer):
    # [B, h, L, L], column m holds the logit for distance (L-1-m) into the past
    B, h, L, _ = qer.shape
    padded = F.pad(qer, (1, 0))
    return padded.reshape(B, h, L + 1, L)[:, :, 1:, :]


class RelativeGlobalAttention(nn.Module):
    """Causal: event t listens to events <= t. Er[max_seq-1] is distance 0, Er[max_seq-1-m] distance m."""

    def __init__(self, d=256, h=4, max_seq=2048, dropout=0.0):
        super().__init__()
        self.h, self.dh, self.max_seq = h, d // h, max_seq
        self.Wqkv = nn.ModuleDict({n: nn.Linear(d, d) for n in ("q", "k", "v")})
        self.Er = nn.Parameter(torch.randn(h, max_seq, self.dh) * 0.02)
        self.fc = nn.Linear(d, d)
        self.dropout = dropout

    def forward(self, x, pad=None):
        """pad: bool [B, L], True for events after the end of the piece"""
        B, L, D = x.shape
        if L > self.max_seq:
            raise ValueError(f"sequence of {L} events, at most {self.max_seq}")
        q, k, v = (
            self.Wqkv[n](x).view(B, L, self.h, self.dh).permute(0, 2, 1, 3) for n in ("q", "k", "v")
        )
        E = self.Er[:, self.max_seq - L:]
        QEr = torch.einsum("bhld,hmd->bhlm", q, E)
        Srel = skew(QEr)
        logits = (torch.matmul(q, k.transpose(2, 3)) + Srel) / math.sqrt(self.dh)
        hide = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x.device), diagonal=1)
        if pad is not None:
            hide = hide | pad[:, None, None, :]
        w = logits.masked_fill(hide, float("-inf")).softmax(-1)
        w = F.dropout(w, self.dropout, self.training)
        out = torch.matmul(w, v).permute(0, 2, 1, 3).reshape(B, L, D)
        return self.fc(out)


class Layer(nn.Module):
    def __init__(self, d, h, max_seq, p):
        super().__init__()
        self.rga = RelativeGlobalAttention(d, h, max_seq, p)
        self.ff = nn.Sequential(nn.Linear(d, d // 2), nn.ReLU(), nn.Linear(d // 2, d))
        self.n1, self.n2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
        self.p = nn.Dropout(p)

    def forward(self, x, pad=None):
        x = self.n1(x + self.p(self.rga(x, pad)))
        return self.n2(x + self.p(self.ff(x)))


class MusicDecoder(nn.Module):
    def __init__(self, vocab=390, d=128, h=4, layers=3, max_seq=512, p=0.1, pad_id=389):
        super().__init__()
        self.pad_id = pad_id
        self.emb = nn.Embedding(vocab, d, padding_idx=pad_id)
        self.layers = nn.ModuleList(Layer(d, h, max_seq, p) for _ in range(layers))
        self.out = nn.Linear(d, vocab)
        self.d = d

    def forward(self, ev):
        pad = ev.eq(self.pad_id)
        x = self.emb(ev) * math.sqrt(self.d)
        for l in self.layers:
            x = l(x, pad)
        return self.out(x)

    @torch.no_grad()
    def sample(self, prime, steps, temperature=1.0):
        ev = prime
        for _ in range(steps):
            p = (self(ev)[:, -1] / temperature).softmax(-1)
            ev = torch.cat([ev, torch.multinomial(p, 1)], dim=1)
        return ev
