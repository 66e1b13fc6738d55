import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionWithDropout(nn.Module):
    def __init__(self, d, h, p=0.1):
        super().__init__()
        self.h = h
        self.p = p
        self.in_proj = nn.Linear(d, d * 3)
        self.out_proj = nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.in_proj(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, d))
