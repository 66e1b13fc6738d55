import torch
import torch.nn as nn
import torch.nn.functional as F


class WindowAttentionV2(nn.Module):
    """Swin V2: scaled cosine attention in a window.  x (num_windows * B, Wh * Ww, C).

    Cosines are divided by a learned temperature (never below 0.01) and not by sqrt(d); the position bias is
    16 * sigmoid(MLP(log-spaced offsets)), so it is never negative.
    """

    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(num_heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, num_heads, bias=False))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

        wh, ww = window_size
        yx = torch.stack(torch.meshgrid(torch.arange(wh), torch.arange(ww), indexing="ij")).flatten(1)
        rel = (yx[:, :, None] - yx[:, None, :]).permute(1, 2, 0).float()  # (N, N, 2)
        rel = 8 * rel / torch.tensor([max(wh - 1, 1), max(ww - 1, 1)])
        self.register_buffer("offsets", torch.sign(rel) * torch.log2(rel.abs() + 1.0) / 3.0)

    def forward(self, x):
        B_, N, C = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)

        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * self.logit_scale.clamp(max=4.6051702).exp()
        attn = attn + 16 * torch.sigmoid(self.cpb_mlp(self.offsets)).permute(2, 0, 1)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B_, N, C))
