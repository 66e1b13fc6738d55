# Relative self-attention for a MIDI continuation model ("skewing", Huang et al. 2018)
import torch
from torch import nn


def skew(qe):
    """[B,H,L,L] indexed by (query, distance slot) -> indexed by (query, key).

    Slot r of qe stands for the relative distance r-(L-1), i.e. slot L-1 = same step.
    Only the lower triangle of the result is meaningful.
    """
    B, H, L, _ = qe.shape
    padded = nn.functional.pad(qe, (1, 0))
    return padded.reshape(B, H, L + 1, L)[:, :, 1:, :]


class MidiRelAttention(nn.Module):
    def __init__(self, dim, heads, max_len=512, p=0.1):
        super().__init__()
        self.heads = heads
        self.dh = dim // heads
        self.max_len = max_len
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.E = nn.Parameter(torch.randn(heads, max_len, self.dh) * 0.02)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, x, silent=None):
        """x [B,L,dim]; silent [B,L] True at padding steps at the end. Causal.

        score(i,j) = (q_i . k_j + q_i . E[j-i]) / sqrt(dh)
        """
        B, L, D = x.shape
        if L > self.max_len:
            raise ValueError(f"{L} steps, but only {self.max_len} are embedded")
        q, k, v = (t.reshape(B, L, self.heads, self.dh).transpose(1, 2)
                   for t in self.to_qkv(x).chunk(3, dim=-1))
        content = q @ k.mT
        rel = skew(torch.einsum("bhld,hrd->bhlr", q, self.E[:, self.max_len - L:]))
        s = (content + rel) / self.dh ** 0.5
        drop_key = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x.device), 1)[None, None]
        if silent is not None:
            drop_key = drop_key | silent[:, None, None, :]
        s = s.masked_fill(drop_key, torch.finfo(s.dtype).min)
        w = self.drop(s.softmax(-1))
        return self.proj((w @ v).transpose(1, 2).reshape(B, L, D))


class MidiModel(nn.Module):
    def __init__(self, vocab=388, dim=64, depth=2, heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.att = nn.ModuleList(MidiRelAttention(dim, heads) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens):
        h = self.emb(tokens)
        for a, n in zip(self.att, self.ln):
            h = h + a(n(h))
        return self.head(h)
