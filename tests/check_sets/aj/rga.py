import math
import torch
from torch import nn
import torch.nn.functional as F

# Relative global attention, Huang et al. 2018 "Music Transformer", with the skewing trick.
# event vocabulary: 128 note_on, 128 note_off, 100 time shifts, 32 velocities, + <pad> <bos> <eos>
VOCAB = 128 + 128 + 100 + 32 + 3
PAD = VOCAB - 3


def sinusoid(max_seq, dim):
    ang = torch.arange(max_seq).float().unsqueeze(1) * torch.exp(
        torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    table = torch.zeros(max_seq, dim)
    table[:, 0::2] = ang.sin()
    table[:, 1::2] = ang.cos()
    return table


class RelativeGlobalAttention(nn.Module):
    def __init__(self, h=4, d=256, max_seq=2048):
        super().__init__()
        self.h, self.d, self.dh = h, d, d // h
        self.max_seq = max_seq
        self.Wq = nn.Linear(d, d)
        self.Wk = nn.Linear(d, d)
        self.Wv = nn.Linear(d, d)
        self.fc = nn.Linear(d, d)
        # row max_seq-1 belongs to distance 0, row max_seq-1-t to "t events ago"
        self.E = nn.Parameter(torch.randn(max_seq, self.dh) * self.dh ** -0.5)

    def forward(self, q, k, v, mask=None):
        """q, k, v: [B, L, d]; mask: bool, True = position must not be seen, [L, L] or [B, 1, L, L]"""
        B, L, _ = q.shape
        q = self.Wq(q).reshape(B, L, self.h, self.dh).permute(0, 2, 1, 3)
        k = self.Wk(k).reshape(B, L, self.h, self.dh).permute(0, 2, 1, 3)
        v = self.Wv(v).reshape(B, L, self.h, self.dh).permute(0, 2, 1, 3)

        E = self.E[max(0, self.max_seq - L):, :]
        QE = torch.einsum("bhld,md->bhlm", q, E)
        QE = self._qe_masking(QE)
        Srel = self._skewing(QE)

        QKt = torch.matmul(q, k.permute(0, 1, 3, 2))
        logits = (QKt + Srel) / math.sqrt(self.dh)
        if mask is not None:
            logits = logits.masked_fill(mask, -1e9)
        w = F.softmax(logits, -1)
        out = torch.matmul(w, v).permute(0, 2, 1, 3).reshape(B, L, self.d)
        return self.fc(out), w

    @staticmethod
    def _qe_masking(qe):
        # entries that would slide above the diagonal are zeroed before the skew
        L = qe.size(-1)
        i = torch.arange(L, device=qe.device)
        keep = (i[None, :] + i[:, None]) >= L - 1
        return qe * keep.to(qe.dtype)

    @staticmethod
    def _skewing(t):
        t = F.pad(t, (1, 0))
        b, h, r, c = t.shape
        return t.reshape(b, h, c, r)[:, :, 1:, :]


class EncoderLayer(nn.Module):
    def __init__(self, d, h, rate=0.1, max_seq=2048):
        super().__init__()
        self.rga = RelativeGlobalAttention(h, d, max_seq)
        self.ff = nn.Sequential(nn.Linear(d, d // 2), nn.ReLU(), nn.Linear(d // 2, d))
        self.n1 = nn.LayerNorm(d, eps=1e-6)
        self.n2 = nn.LayerNorm(d, eps=1e-6)
        self.drop = nn.Dropout(rate)

    def forward(self, x, mask=None):
        a, w = self.rga(x, x, x, mask)
        x = self.n1(x + self.drop(a))
        return self.n2(x + self.drop(self.ff(x))), w


class MusicTransformer(nn.Module):
    def __init__(self, d=128, layers=4, h=4, max_seq=512):
        super().__init__()
        self.d = d
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.register_buffer("pos", sinusoid(max_seq, d), persistent=False)
        self.layers = nn.ModuleList([EncoderLayer(d, h, max_seq=max_seq) for _ in range(layers)])
        self.out = nn.Linear(d, VOCAB)

    def forward(self, tokens):
        L = tokens.size(1)
        future = torch.triu(torch.ones(L, L, dtype=torch.bool, device=tokens.device), diagonal=1)
        mask = future | (tokens == PAD)[:, None, None, :]
        x = self.emb(tokens) * math.sqrt(self.d) + self.pos[:L]
        for layer in self.layers:
            x, _ = layer(x, mask)
        return self.out(x)
