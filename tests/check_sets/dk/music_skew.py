"""Music Transformer self attention with the memory-saving "skewing" trick.

    S = softmax_{j<=i}( (Q K^T + S_rel) / sqrt(d) ),   S_rel[i, j] = q_i . E[h, L-1-(i-j)]

E [H, max_len, d] is learned, its LAST row belongs to distance 0, the row before it
to distance 1 and so on.  Events are only allowed to listen to themselves and to
the past.

MusicAttention(dim, heads, max_len)(x): x [B, L, dim], L <= max_len -> [B, L, dim]
"""
import torch
from torch import nn
import torch.nn.functional as F


class MusicAttention(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.H, self.d, self.max_len = heads, dim // heads, max_len
        self.Wq = nn.Linear(dim, dim, bias=False)
        self.Wk = nn.Linear(dim, dim, bias=False)
        self.Wv = nn.Linear(dim, dim, bias=False)
        self.fc = nn.Linear(dim, dim)
        self.E = nn.Parameter(torch.randn(heads, max_len, self.d) * 0.3)

    def _heads(self, t):
        b, l, _ = t.shape
        return t.reshape(b, l, self.H, self.d).permute(0, 2, 1, 3)

    @staticmethod
    def _skew(qe):
        """[B, H, L, L] (columns = embedding rows) -> columns = key positions.
        Entries above the diagonal are garbage and must be masked by the caller."""
        b, h, l, _ = qe.shape
        padded = F.pad(qe, (1, 0))
        return padded.reshape(b, h, l + 1, l)[:, :, 1:, :]

    def forward(self, x):
        B, L, D = x.shape
        if L > self.max_len:
            raise ValueError("sequence longer than max_len")
        q, k, v = self._heads(self.Wq(x)), self._heads(self.Wk(x)), self._heads(self.Wv(x))
        e = self.E[:, self.max_len - L:]
        srel = self._skew(q @ e.transpose(-1, -2))
        logits = (q @ k.transpose(-1, -2) + srel) * self.d ** -0.5
        future = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        att = logits.masked_fill(future, float("-inf")).softmax(dim=-1)
        y = (att @ v).permute(0, 2, 1, 3).reshape(B, L, D)
        return self.fc(y)


def transpose_events(ev, semitones, first=0, last=127):
    """data augmentation: shift note events [.., L] and leave control events alone"""
    note = (ev >= first) & (ev <= last)
    return torch.where(note, (ev + semitones).clamp(first, last), ev)
