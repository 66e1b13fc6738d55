import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, z):
        b, p, d = z.shape
        q, k, v = self.qkv(z).chunk(3, dim=-1)
        q, k, v = [t.view(b, p, self.n_heads, d // self.n_heads).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        return self.out(y.transpose(1, 2).reshape(b, p, d))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.attn = PatchAttention(d_model, n_heads, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Dropout(dropout),
                                nn.Linear(2 * d_model, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, z):
        z = self.norm1(z + self.drop(self.attn(z)))
        return self.norm2(z + self.drop(self.ff(z)))


class PatchForecaster(nn.Module):
    """Channel-independent patch transformer for forecasting.

    x: [batch, look_back, channels] -> forecast [batch, horizon, channels].
    Every channel is cut in patches which attend to each other in both directions.
    """

    def __init__(self, look_back=48, horizon=12, patch=8, stride=4, d_model=32, n_heads=4,
                 layers=2, dropout=0.2):
        super().__init__()
        self.patch, self.stride = patch, stride
        num = (look_back - patch) // stride + 1
        self.embed = nn.Linear(patch, d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(num, d_model))
        self.layers = nn.ModuleList([EncoderLayer(d_model, n_heads, dropout) for _ in range(layers)])
        self.head = nn.Linear(num * d_model, horizon)

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        std = x.std(1, keepdim=True, unbiased=False) + 1e-5
        x = (x - mean) / std
        b, _, c = x.shape
        x = x.transpose(1, 2).unfold(-1, self.patch, self.stride)   # b, c, num, patch
        z = self.embed(x.reshape(b * c, x.size(2), self.patch)) + self.pos
        for layer in self.layers:
            z = layer(z)
        y = self.head(z.flatten(1)).view(b, c, -1).transpose(1, 2)
        return y * std + mean
