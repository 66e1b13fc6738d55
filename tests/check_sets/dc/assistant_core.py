from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class AssistantConfig:
    width: int = 64
    q_heads: int = 8
    kv_heads: int = 2


class AssistantCore(nn.Module):
    """Decoder layer of the on-device assistant.

    Fewer kv heads than query heads; neighbouring query heads form a group: heads 0..r-1 read kv
    head 0, heads r..2r-1 read kv head 1, etc., with r = q_heads / kv_heads (as in the checkpoint).
    """

    def __init__(self, config=None):
        super().__init__()
        c = config or AssistantConfig()
        self.c = c
        self.hd = c.width // c.q_heads
        self.norm = nn.RMSNorm(c.width)
        self.wq = nn.Linear(c.width, c.width, bias=False)
        self.wkv = nn.Linear(c.width, 2 * c.kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(c.width, c.width, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        z = self.norm(x)
        q = self.wq(z).view(B, T, self.c.q_heads, self.hd).transpose(1, 2)
        k, v = self.wkv(z).view(B, T, 2, self.c.kv_heads, self.hd).permute(2, 0, 3, 1, 4)
        r = self.c.q_heads // self.c.kv_heads
        k, v = k.repeat(1, r, 1, 1), v.repeat(1, r, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.wo(y.transpose(1, 2).reshape(B, T, -1))
