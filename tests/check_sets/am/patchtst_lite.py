"""PatchTST, shortened: channel independent patches, encoder with residual attention (RealFormer)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RevIN(nn.Module):
    def __init__(self, n_vars, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.w = nn.Parameter(torch.ones(n_vars))
        self.b = nn.Parameter(torch.zeros(n_vars))

    def norm(self, x):
        self.mu = x.mean(1, keepdim=True).detach()
        self.sd = (x.var(1, keepdim=True, unbiased=False) + self.eps).sqrt().detach()
        return (x - self.mu) / self.sd * self.w + self.b

    def denorm(self, y):
        return (y - self.b) / (self.w + self.eps ** 2) * self.sd + self.mu


class _ScaledDotProductAttention(nn.Module):
    """softmax(q k^T / sqrt(d_k) + scores of the layer before) v

    Hands the (pre-softmax) scores on to the next layer, as in "RealFormer" (He et al, 2020).
    """

    def __init__(self, d_k, attn_dropout=0.0):
        super().__init__()
        self.scale = d_k ** -0.5
        self.attn_dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, prev=None):
        # q [bs, heads, q_len, d_k], k [bs, heads, d_k, seq], v [bs, heads, seq, d_v]
        scores = torch.matmul(q, k) * self.scale
        if prev is not None:
            scores = scores + prev
        weights = self.attn_dropout(F.softmax(scores, dim=-1))
        return torch.matmul(weights, v), scores


class TSTLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.sdp = _ScaledDotProductAttention(self.d, dropout)
        self.out = nn.Linear(d_model, d_model)
        self.n1, self.n2 = nn.BatchNorm1d(d_model), nn.BatchNorm1d(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(dropout),
                                nn.Linear(d_ff, d_model))

    def forward(self, x, prev=None):
        bs, n, m = x.shape
        q = self.W_Q(x).view(bs, -1, self.h, self.d).transpose(1, 2)
        k = self.W_K(x).view(bs, -1, self.h, self.d).permute(0, 2, 3, 1)
        v = self.W_V(x).view(bs, -1, self.h, self.d).transpose(1, 2)
        y, scores = self.sdp(q, k, v, prev)
        y = y.transpose(1, 2).contiguous().view(bs, n, m)
        x = self.n1((x + self.out(y)).transpose(1, 2)).transpose(1, 2)
        x = self.n2((x + self.ff(x)).transpose(1, 2)).transpose(1, 2)
        return x, scores


class PatchTST(nn.Module):
    def __init__(self, n_vars, context=96, horizon=24, patch=16, stride=8, d_model=32, n_heads=4, depth=2):
        super().__init__()
        self.patch, self.stride = patch, stride
        self.n_patch = (context - patch) // stride + 2
        self.revin = RevIN(n_vars)
        self.pad = nn.ReplicationPad1d((0, stride))
        self.W_P = nn.Linear(patch, d_model)
        self.W_pos = nn.Parameter(torch.empty(self.n_patch, d_model).uniform_(-0.02, 0.02))
        self.layers = nn.ModuleList([TSTLayer(d_model, n_heads, 2 * d_model) for _ in range(depth)])
        self.head = nn.Linear(d_model * self.n_patch, horizon)

    def forward(self, x):
        """[bs, context, n_vars] -> [bs, horizon, n_vars]"""
        x = self.pad(self.revin.norm(x).transpose(1, 2))
        z = x.unfold(-1, self.patch, self.stride)
        bs, nv = z.shape[:2]
        z = self.W_P(z).flatten(0, 1) + self.W_pos
        scores = None
        for lay in self.layers:
            z, scores = lay(z, scores)
        y = self.head(z.reshape(bs, nv, -1)).transpose(1, 2)
        return self.revin.denorm(y)
