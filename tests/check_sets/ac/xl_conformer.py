"""Relative multi-head self-attention of Transformer-XL (as used in the Conformer), with its block."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RelPositionalEncoding(nn.Module):
    """Sinusoids for the distances T-1, ..., 0, ..., -(T-1)."""

    def __init__(self, d_model):
        super().__init__()
        inv = 1.0 / (10000 ** (torch.arange(0.0, d_model, 2.0) / d_model))
        self.register_buffer("inv_freq", inv)

    def forward(self, T):
        dist = torch.arange(T - 1, -T, -1, device=self.inv_freq.device, dtype=self.inv_freq.dtype)
        ang = torch.outer(dist, self.inv_freq)
        return torch.stack([ang.sin(), ang.cos()], dim=-1).flatten(1)      # (2T-1, d)


class RelMHSA(nn.Module):
    def __init__(self, d_model, heads, p=0.1):
        super().__init__()
        self.heads, self.dh = heads, d_model // heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.pos = nn.Linear(d_model, d_model, bias=False)
        self.u = nn.Parameter(torch.empty(heads, self.dh))
        self.v = nn.Parameter(torch.empty(heads, self.dh))
        nn.init.xavier_uniform_(self.u)
        nn.init.xavier_uniform_(self.v)
        self.out = nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(p)

    @staticmethod
    def rel_shift(x):
        # (B, H, T, 2T-1): entry for distance T-1-c in column c -> (B, H, T, T) with distance i-j
        b, h, t, n = x.shape
        x = F.pad(x, (1, 0)).view(b, h, n + 1, t)
        return x[:, :, 1:].reshape(b, h, t, n)[..., :t]

    def forward(self, x, pe, pad_mask=None):
        b, t, d = x.shape
        q = self.query(x).view(b, t, self.heads, self.dh)
        k = self.key(x).view(b, t, self.heads, self.dh)
        v = self.value(x).view(b, t, self.heads, self.dh)
        r = self.pos(pe).view(-1, self.heads, self.dh)

        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        position = self.rel_shift(torch.einsum("bihd,rhd->bhir", q + self.v, r))
        score = (content + position) * self.dh ** -0.5
        if pad_mask is not None:                      # True = padding
            score = score.masked_fill(pad_mask[:, None, None], -1e9)
        w = self.drop(score.softmax(-1))
        return self.out(torch.einsum("bhij,bjhd->bihd", w, v).reshape(b, t, d))


class ConformerLayer(nn.Module):
    def __init__(self, d_model=64, heads=4, kernel=7, p=0.1):
        super().__init__()
        ff = lambda: nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, 4 * d_model), nn.SiLU(),
                                   nn.Dropout(p), nn.Linear(4 * d_model, d_model), nn.Dropout(p))
        self.ff_a, self.ff_b = ff(), ff()
        self.pe = RelPositionalEncoding(d_model)
        self.ln_att, self.att = nn.LayerNorm(d_model), RelMHSA(d_model, heads, p)
        self.ln_conv = nn.LayerNorm(d_model)
        self.expand = nn.Conv1d(d_model, 2 * d_model, 1)
        self.depth = nn.Conv1d(d_model, d_model, kernel, padding=kernel // 2, groups=d_model)
        self.bn = nn.BatchNorm1d(d_model)
        self.point = nn.Conv1d(d_model, d_model, 1)
        self.drop = nn.Dropout(p)
        self.ln_out = nn.LayerNorm(d_model)

    def conv(self, x, pad_mask):
        y = F.glu(self.expand(self.ln_conv(x).transpose(1, 2)), dim=1)
        if pad_mask is not None:
            y = y.masked_fill(pad_mask[:, None], 0.0)
        return self.drop(self.point(F.silu(self.bn(self.depth(y)))).transpose(1, 2))

    def forward(self, x, pad_mask=None):
        x = x + 0.5 * self.ff_a(x)
        x = x + self.drop(self.att(self.ln_att(x), self.pe(x.size(1)), pad_mask))
        x = x + self.conv(x, pad_mask)
        x = x + 0.5 * self.ff_b(x)
        return self.ln_out(x)
