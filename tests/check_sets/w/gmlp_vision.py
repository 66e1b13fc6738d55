import torch
from torch import nn


class SpatialGatingUnit(nn.Module):
    def __init__(self, dim_ffn, seq_len):
        super().__init__()
        self.norm = nn.LayerNorm(dim_ffn // 2)
        self.spatial_proj = nn.Conv1d(seq_len, seq_len, kernel_size=1)
        nn.init.normal_(self.spatial_proj.weight, std=1e-2)
        nn.init.constant_(self.spatial_proj.bias, 1.0)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        v = self.spatial_proj(self.norm(v))
        return u * v


class gMLPBlock(nn.Module):
    def __init__(self, d_model, d_ffn, seq_len, survival_prob=1.0):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.proj_in = nn.Linear(d_model, d_ffn)
        self.act = nn.GELU()
        self.sgu = SpatialGatingUnit(d_ffn, seq_len)
        self.proj_out = nn.Linear(d_ffn // 2, d_model)
        self.survival_prob = survival_prob

    def forward(self, x):
        if self.training and torch.rand(()).item() > self.survival_prob:
            return x
        y = self.act(self.proj_in(self.norm(x)))
        return x + self.proj_out(self.sgu(y))


class gMLPForImageClassification(nn.Module):
    def __init__(self, image_size=32, patch_size=8, in_channels=3, num_classes=10, d_model=64, d_ffn=128, num_layers=3):
        super().__init__()
        n = (image_size // patch_size) ** 2
        self.patcher = nn.Conv2d(in_channels, d_model, patch_size, patch_size)
        self.model = nn.Sequential(*[gMLPBlock(d_model, d_ffn, n) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.mlp_head = nn.Linear(d_model, num_classes)

    def forward(self, x):
        x = self.patcher(x).flatten(2).transpose(1, 2)
        x = self.norm(self.model(x))
        return self.mlp_head(x.mean(dim=1))
