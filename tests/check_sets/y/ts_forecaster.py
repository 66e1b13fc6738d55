"""Long-horizon forecasting, channel independent patches (PatchTST flavour)."""
from types import SimpleNamespace
import torch
import torch.nn as nn


def get_configs(**kwargs):
    c = SimpleNamespace(seq_len=48, pred_len=12, patch_len=8, stride=4, d_model=32, n_heads=4,
                        d_ff=64, e_layers=2, dropout=0.05, enc_in=3, output_attention=False)
    for k, v in kwargs.items():
        setattr(c, k, v)
    return c


class RevIN(nn.Module):
    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.w, self.b = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))

    def norm(self, x):
        self.mu = x.mean(1, keepdim=True).detach()
        self.sd = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - self.mu) / self.sd * self.w + self.b

    def denorm(self, x):
        return (x - self.b) / (self.w + self.eps * self.eps) * self.sd + self.mu


class FullAttention(nn.Module):
    def __init__(self, scale, attention_dropout=0.1, output_attention=False):
        super().__init__()
        self.scale = scale
        self.output_attention = output_attention
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values):
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        A = self.dropout(torch.softmax(self.scale * scores, dim=-1))
        V = torch.einsum("bhls,bshd->blhd", A, values)
        return (V.contiguous(), A) if self.output_attention else (V.contiguous(), None)


class AttentionLayer(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.1, output_attention=False):
        super().__init__()
        d_keys = d_model // n_heads
        self.inner_attention = FullAttention(d_model ** -0.5, dropout, output_attention)
        self.query_projection = nn.Linear(d_model, d_keys * n_heads)
        self.key_projection = nn.Linear(d_model, d_keys * n_heads)
        self.value_projection = nn.Linear(d_model, d_keys * n_heads)
        self.out_projection = nn.Linear(d_keys * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values):
        B, L, _ = queries.shape
        S, H = keys.shape[1], self.n_heads
        out, attn = self.inner_attention(
            self.query_projection(queries).view(B, L, H, -1),
            self.key_projection(keys).view(B, S, H, -1),
            self.value_projection(values).view(B, S, H, -1))
        return self.out_projection(out.view(B, L, -1)), attn


class EncLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention = AttentionLayer(c.d_model, c.n_heads, c.dropout, c.output_attention)
        self.bn1, self.bn2 = nn.BatchNorm1d(c.d_model), nn.BatchNorm1d(c.d_model)
        self.ff = nn.Sequential(nn.Linear(c.d_model, c.d_ff), nn.GELU(), nn.Dropout(c.dropout),
                                nn.Linear(c.d_ff, c.d_model), nn.Dropout(c.dropout))

    def forward(self, x):
        new, attn = self.attention(x, x, x)
        x = self.bn1((x + new).transpose(1, 2)).transpose(1, 2)
        x = self.bn2((x + self.ff(x)).transpose(1, 2)).transpose(1, 2)
        return x, attn


class Forecaster(nn.Module):
    """x (B, seq_len, enc_in) -> (B, pred_len, enc_in)"""

    def __init__(self, configs=None):
        super().__init__()
        c = self.c = configs or get_configs()
        self.revin = RevIN(c.enc_in)
        self.n_patch = (c.seq_len - c.patch_len) // c.stride + 2
        self.pad = nn.ReplicationPad1d((0, c.stride))
        self.proj = nn.Linear(c.patch_len, c.d_model)
        self.pos = nn.Parameter(torch.empty(self.n_patch, c.d_model).uniform_(-0.02, 0.02))
        self.layers = nn.ModuleList([EncLayer(c) for _ in range(c.e_layers)])
        self.head = nn.Linear(self.n_patch * c.d_model, c.pred_len)

    def forward(self, x):
        B, _, M = x.shape
        z = self.pad(self.revin.norm(x).permute(0, 2, 1))
        z = z.unfold(-1, self.c.patch_len, self.c.stride).flatten(0, 1)
        z = self.proj(z) + self.pos
        attns = []
        for layer in self.layers:
            z, a = layer(z)
            attns.append(a)
        y = self.head(z.flatten(1)).view(B, M, -1).permute(0, 2, 1)
        y = self.revin.denorm(y)
        return (y, attns) if self.c.output_attention else y
