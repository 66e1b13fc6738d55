"""フィルム修復用の軸方向アテンション。

入力は [B, T, H, W, C] の動画特徴。まず各画素位置で時間方向に、次に各フレーム内で
空間方向 (H*W) に自己アテンションを行う (どちらも残差つき)。
傷フレーム (scratched=True) は時間方向のキーとしては使わない。ただし自分自身は常に見る。
"""
import torch
import torch.nn.functional as F
from torch import nn


class AxisAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, allow=None):
        # x: [..., N, C]、allow: [..., 1, N, N] (True = 見てよい)
        h = self.norm(x)
        q, k, v = self.qkv(h).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        return x + self.proj(y.transpose(-3, -2).flatten(-2))


class FilmRestorer(nn.Module):
    def __init__(self, dim=12, heads=3):
        super().__init__()
        self.time = AxisAttention(dim, heads)
        self.space = AxisAttention(dim, heads)

    def forward(self, clip, scratched=None):
        b, t, h, w, c = clip.shape
        allow = None
        if scratched is not None:
            eye = torch.eye(t, dtype=torch.bool, device=clip.device)
            allow = (~scratched)[:, None, :] | eye               # [B, T, T]
            allow = allow[:, None, None, None]                   # [B, 1, 1, 1, T, T]
        x = clip.permute(0, 2, 3, 1, 4)                          # [B, H, W, T, C]
        x = self.time(x, allow)
        x = x.permute(0, 3, 1, 2, 4).reshape(b, t, h * w, c)
        x = self.space(x)
        return x.view(b, t, h, w, c)
