import torch
import torch.nn as nn
import torch.nn.functional as F


class CosinePatchAttention(nn.Module):
    """Scaled cosine attention (Swin V2) between image patches, x: (B, N, C).

    score_ij = cos(q_i, k_j) / tau with a learned tau per head, not below 0.01.
    """

    def __init__(self, dim, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.tau = nn.Parameter(torch.full((num_heads, 1, 1), 0.1))

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q = F.normalize(q, dim=2)
        k = F.normalize(k, dim=2)
        attn = q @ k.transpose(-2, -1) / self.tau.clamp(min=0.01)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))
