"""Chest X-ray report generation: patches of up to two views, then a report decoder.

A study may have one view only (frontal) or two; missing view's patches are padding.
"""
import torch
import torch.nn as nn


def patch_mask(has_lateral, per_view):
    """has_lateral bool [B] -> valid [B, 2 * per_view], True = real patch."""
    first = torch.ones(has_lateral.shape[0], per_view, dtype=torch.bool, device=has_lateral.device)
    return torch.cat([first, has_lateral[:, None].expand(-1, per_view)], 1)


class PatchEmbed(nn.Module):
    def __init__(self, dim, patch=16, size=64):
        super().__init__()
        self.conv = nn.Conv2d(1, dim, patch, patch)
        n = (size // patch) ** 2
        self.pos = nn.Parameter(torch.randn(1, n, dim) * 0.02)
        self.view = nn.Parameter(torch.randn(2, 1, 1, dim) * 0.02)

    def forward(self, views):
        """views [B, 2, 1, S, S]"""
        out = [self.conv(views[:, i]).flatten(2).transpose(1, 2) + self.pos + self.view[i] for i in range(2)]
        return torch.cat(out, 1)


class StudyAttention(nn.Module):
    """Self-attention over the patches of one study. Padding patches must not be attended to."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, valid):
        """valid: bool [B, L], True = real patch"""
        B, L, D = x.shape
        dh = D // self.n_heads
        q = self.to_q(x).view(B, L, self.n_heads, dh).transpose(1, 2)
        k = self.to_k(x).view(B, L, self.n_heads, dh).transpose(1, 2)
        v = self.to_v(x).view(B, L, self.n_heads, dh).transpose(1, 2)
        dots = (q @ k.mT) * dh ** -0.5
        m = valid.unsqueeze(1).unsqueeze(3)
        dots = dots.masked_fill(~m, -1e9)
        y = dots.softmax(dim=-1) @ v
        return self.to_out(y.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.embed = PatchEmbed(dim)
        self.att = nn.ModuleList(StudyAttention(dim, heads) for _ in range(depth))
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(depth))

    def forward(self, views, has_lateral):
        x = self.embed(views)
        valid = patch_mask(has_lateral, x.shape[1] // 2)
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.n[2 * i](x), valid)
            x = x + f(self.n[2 * i + 1](x))
        return x, valid


class ReportModel(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, depth=2, findings=14):
        super().__init__()
        self.enc = Encoder(dim, heads, depth)
        self.tag = nn.Linear(dim, findings)
        self.word = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(2 * dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, views, has_lateral, words):
        x, valid = self.enc(views, has_lateral)
        w = valid.unsqueeze(-1).float()
        study = (x * w).sum(1) / w.sum(1)
        z = torch.cat([self.word(words), study.unsqueeze(1).expand(-1, words.shape[1], -1)], -1)
        return self.out(self.lstm(z)[0]), self.tag(study)
