"""NER tagger for clinical letters: char CNN + self attention + linear CRF scores."""
import numpy as np
import torch
import torch.nn as nn


class ScaledDot(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, q, k, v, mask):
        # mask True -> padding
        attn = torch.bmm(q, k.transpose(1, 2)) / self.temperature
        attn = attn.masked_fill(mask, -np.inf)
        attn = torch.softmax(attn, dim=2)
        return torch.bmm(attn, v)


class TokenMixer(nn.Module):
    """n_head heads, folded into the batch axis."""

    def __init__(self, n_head, d_model, d_k):
        super().__init__()
        self.n_head, self.d_k = n_head, d_k
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_k)
        self.core = ScaledDot(np.power(d_k, 0.5))
        self.fc = nn.Linear(n_head * d_k, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, lengths):
        b, l, _ = x.size()
        n, d = self.n_head, self.d_k
        q, k, v = (w(x).view(b, l, n, d).permute(2, 0, 1, 3).reshape(n * b, l, d)
                   for w in (self.w_qs, self.w_ks, self.w_vs))
        pad = torch.arange(l, device=x.device)[None, :] >= lengths[:, None]
        pad = pad.unsqueeze(1).expand(b, l, l)
        y = self.core(q, k, v, pad.repeat_interleave(n, dim=0))
        y = y.view(n, b, l, d).permute(1, 2, 0, 3).reshape(b, l, n * d)
        return self.norm(self.fc(y) + x)


class CharCnn(nn.Module):
    def __init__(self, n_chars, dim):
        super().__init__()
        self.emb = nn.Embedding(n_chars, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)

    def forward(self, c):
        b, l, w = c.shape
        e = self.emb(c.view(b * l, w)).transpose(1, 2)
        return torch.relu(self.conv(e)).amax(-1).view(b, l, -1)


class Tagger(nn.Module):
    def __init__(self, n_chars, n_tags, dim=24, heads=3):
        super().__init__()
        self.chars = CharCnn(n_chars, dim)
        self.mix = TokenMixer(heads, dim, dim // heads)
        self.tags = nn.Linear(dim, n_tags)

    def forward(self, chars, lengths):
        return self.tags(self.mix(self.chars(chars), lengths))
