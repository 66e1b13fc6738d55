"""Music-transformer style relative attention.

numpy prepares the event batches, torch does the maths.
"""
import numpy as np
import torch
import torch.nn as nn

NOTE_ON, NOTE_OFF, SHIFT, VELOCITY = 0, 128, 256, 356
VOCAB = 388
PAD = VOCAB


def batch_events(pieces, max_len):
    """lists of event ids -> int64 (B, T), right padded; lengths (B,)"""
    T = min(max_len, max(len(p) for p in pieces))
    out = np.full((len(pieces), T), PAD, dtype=np.int64)
    n = np.zeros(len(pieces), dtype=np.int64)
    for row, p in enumerate(pieces):
        p = p[:T]
        out[row, : len(p)] = p
        n[row] = len(p)
    return out, n


def causal_keep(T, lengths):
    """bool (B, T, T); True = may be read. The first event is always readable."""
    tri = np.tril(np.ones((T, T), dtype=bool))
    real = np.arange(T)[None, :] < np.maximum(np.asarray(lengths), 1)[:, None]
    return tri[None] & real[:, None, :]


class RelativeAttention(nn.Module):
    """
    Huang et al. 2018: (Q K^T + skew(Q E^T)) / sqrt(d).

    E holds max_len vectors per head; row max_len-1 is distance 0, row
    max_len-1-r is distance r to the left.  Causal.
    """

    def __init__(self, d_model, n_heads, max_len):
        super().__init__()
        self.n_heads, self.d, self.max_len = n_heads, d_model // n_heads, max_len
        self.Wq, self.Wk, self.Wv, self.fc = (nn.Linear(d_model, d_model) for _ in range(4))
        self.E = nn.Parameter(torch.randn(n_heads, max_len, self.d) * 0.1)

    @staticmethod
    def _skew(m):
        # (B, H, T, T) indexed by distance -> indexed by key
        B, H, T, _ = m.shape
        m = nn.functional.pad(m, (1, 0))
        return m.reshape(B, H, T + 1, T)[:, :, 1:]

    def forward(self, x, lengths=None):
        B, T, C = x.shape
        q, k, v = (
            w(x).reshape(B, T, self.n_heads, self.d).permute(0, 2, 1, 3)
            for w in (self.Wq, self.Wk, self.Wv)
        )
        E = self.E[:, self.max_len - T:]
        rel = self._skew(torch.einsum("bhtd,hrd->bhtr", q, E))
        keep = torch.from_numpy(causal_keep(T, np.full(B, T) if lengths is None else lengths))
        s = (q @ k.transpose(-1, -2) + rel) / np.sqrt(self.d)
        s = s.masked_fill(~keep[:, None].to(x.device), float("-inf"))
        y = torch.softmax(s, -1) @ v
        return self.fc(y.permute(0, 2, 1, 3).reshape(B, T, C))


class Composer(nn.Module):
    def __init__(self, d_model=32, n_heads=4, max_len=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + 1, d_model, padding_idx=PAD)
        self.rel = RelativeAttention(d_model, n_heads, max_len)
        self.norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, VOCAB)

    def forward(self, events, lengths):
        x = self.emb(torch.from_numpy(events))
        return self.out(self.norm(x + self.rel(x, lengths)))


if __name__ == "__main__":
    ev, n = batch_events([[60, 270, 188], [64, 67, 280, 192, 195]], 64)
    print(Composer()(ev, n).shape)
