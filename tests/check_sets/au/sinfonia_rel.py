"""Music Transformer decoder layer over MIDI events (relative attention with the skewing trick)."""
import math

import torch
import torch.nn as nn

NOTE_ON, NOTE_OFF, SHIFT, VEL = 128, 128, 100, 32
VOCAB = NOTE_ON + NOTE_OFF + SHIFT + VEL


def to_events(notes, step=0.01):
    """notes: list of (start, end, pitch) in seconds -> list of event ids, without velocity."""
    marks = sorted([(s, 1, p) for s, e, p in notes] + [(e, 0, p) for s, e, p in notes])
    now, out = 0.0, []
    for t, on, p in marks:
        n = int(round((t - now) / step))
        while n > 0:
            k = min(n, SHIFT)
            out.append(NOTE_ON + NOTE_OFF + k - 1)
            n -= k
        out.append(p if on else NOTE_ON + p)
        now = t
    return out


class RelativeAttention(nn.Module):
    """Causal self-attention, Huang et al. 2018: softmax((Q K^T + S_rel) / sqrt(d_head)) V.

    ``Er[h, max_len - 1 - r]`` is the embedding of "r events ago"; the last row is distance 0.
    """

    def __init__(self, d_model, n_head, max_len):
        super().__init__()
        self.n_head, self.dh, self.max_len = n_head, d_model // n_head, max_len
        self.Wq = nn.Linear(d_model, d_model)
        self.Wk = nn.Linear(d_model, d_model)
        self.Wv = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.Er = nn.Parameter(torch.randn(n_head, max_len, self.dh) * 0.1)
        tri = torch.ones(max_len, max_len).triu(1).bool()
        self.register_buffer("future", tri, persistent=False)

    @staticmethod
    def skew(QEr):
        B, H, L, _ = QEr.shape
        x = torch.nn.functional.pad(QEr, (1, 0))
        return x.reshape(B, H, L + 1, L)[:, :, 1:, :]

    def forward(self, x):
        B, L, D = x.shape
        if L > self.max_len:
            raise ValueError(f"sequence of {L} events, max_len is {self.max_len}")
        q = self.Wq(x).view(B, L, self.n_head, self.dh).permute(0, 2, 1, 3)
        k = self.Wk(x).view(B, L, self.n_head, self.dh).permute(0, 2, 3, 1)
        v = self.Wv(x).view(B, L, self.n_head, self.dh).permute(0, 2, 1, 3)
        Er = self.Er[:, self.max_len - L:, :]
        S_rel = self.skew(q @ Er.transpose(-1, -2))
        logits = (q @ k + S_rel) / math.sqrt(self.dh)
        logits = logits.masked_fill(self.future[:L, :L], float("-inf"))
        z = logits.softmax(-1) @ v
        return self.fc(z.permute(0, 2, 1, 3).reshape(B, L, D))


class Composer(nn.Module):
    def __init__(self, d=64, heads=4, layers=2, max_len=512):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.att = nn.ModuleList(RelativeAttention(d, heads, max_len) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d)) for _ in range(layers))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * layers))
        self.out = nn.Linear(d, VOCAB)

    def forward(self, events):
        x = self.emb(events)
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.ln[2 * i](x))
            x = x + f(self.ln[2 * i + 1](x))
        return self.out(x)

    @torch.no_grad()
    def continue_from(self, events, n, temperature=1.0):
        for _ in range(n):
            logits = self(events)[:, -1] / temperature
            events = torch.cat([events, torch.multinomial(logits.softmax(-1), 1)], 1)
        return events
