"""Conformer block for Kazakh speech recognition, relative positions as in Transformer-XL."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def relative_table(length, d):
    """Sinusoids for the distances L-1, ..., 0, ..., -(L-1): (2L-1, d)"""
    r = torch.arange(length - 1, -length, -1.0).unsqueeze(1)
    w = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    t = torch.zeros(2 * length - 1, d)
    t[:, 0::2], t[:, 1::2] = torch.sin(r * w), torch.cos(r * w)
    return t


class RelPosMHSA(nn.Module):
    """mask (B, T): True for real frames."""

    def __init__(self, d, heads, p=0.1):
        super().__init__()
        self.h, self.dk, self.p = heads, d // heads, p
        self.norm = nn.LayerNorm(d)
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.pos = nn.Linear(d, d, bias=False)
        self.out = nn.Linear(d, d)
        self.u = nn.Parameter(torch.empty(heads, self.dk))
        self.w = nn.Parameter(torch.empty(heads, self.dk))
        nn.init.xavier_uniform_(self.u)
        nn.init.xavier_uniform_(self.w)

    @staticmethod
    def shift(x):
        """(B, H, T, 2T-1) by distance -> (B, H, T, T) by key"""
        B, H, T, P = x.shape
        x = F.pad(x, (1, 0)).view(B, H, P + 1, T)
        return x[:, :, 1:].reshape(B, H, T, P)[..., :T]

    def forward(self, x, mask=None):
        x = self.norm(x)
        B, T, D = x.shape
        q = self.q(x).view(B, T, self.h, self.dk)
        k = self.k(x).view(B, T, self.h, self.dk).transpose(1, 2)
        v = self.v(x).view(B, T, self.h, self.dk).transpose(1, 2)
        r = self.pos(relative_table(T, D).to(x)).view(-1, self.h, self.dk).transpose(0, 1)
        ac = (q + self.u).transpose(1, 2) @ k.transpose(-1, -2)
        bd = self.shift((q + self.w).transpose(1, 2) @ r.transpose(-1, -2))
        s = (ac + bd) / math.sqrt(self.dk)
        if mask is not None:
            s = s.masked_fill(~mask[:, None, None, :], -1e9)
        a = F.dropout(torch.softmax(s, -1), self.p)
        return self.out((a @ v).transpose(1, 2).reshape(B, T, D))


class ConvModule(nn.Module):
    def __init__(self, d, kernel=15):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.pw1, self.pw2 = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
        self.dw = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.gn = nn.GroupNorm(1, d)

    def forward(self, x):
        y = F.glu(self.pw1(self.norm(x).transpose(1, 2)), dim=1)
        return self.pw2(F.silu(self.gn(self.dw(y)))).transpose(1, 2)


def feed_forward(d, p):
    return nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Dropout(p), nn.Linear(4 * d, d))


class ConformerBlock(nn.Module):
    def __init__(self, d=144, heads=4, p=0.1):
        super().__init__()
        self.ff1, self.ff2 = feed_forward(d, p), feed_forward(d, p)
        self.att, self.conv = RelPosMHSA(d, heads, p), ConvModule(d)
        self.norm = nn.LayerNorm(d)

    def forward(self, x, mask=None):
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(x, mask)
        x = x + self.conv(x)
        return self.norm(x + 0.5 * self.ff2(x))


class KazASR(nn.Module):
    def __init__(self, n_mels=80, d=144, blocks=4, vocab=43):
        super().__init__()
        self.sub = nn.Conv1d(n_mels, d, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(ConformerBlock(d) for _ in range(blocks))
        self.ctc = nn.Linear(d, vocab)

    @torch.no_grad()
    def transcribe(self, mel, alphabet):
        self.eval()
        x = self.sub(mel).transpose(1, 2)
        for b in self.blocks:
            x = b(x)
        ids = self.ctc(x).argmax(-1)[0].tolist()
        return "".join(alphabet[i] for i, prev in zip(ids, [0] + ids) if i != prev and i != 0)
