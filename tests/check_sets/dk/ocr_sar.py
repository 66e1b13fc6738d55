"""不规则文字识别的二维注意力解码器 (SAR: Show, Attend and Read).

输入:
    feat   [B, C, H, W]  CNN 特征图
    width  [B] int       每张图片的有效宽度 (列数, >= 1); 右边是填充
    text   [B, L] int    教师强制的字符 (第 0 个是 <start>)
输出:
    logits [B, L, n_char]

每一步:  e_xy = w^T tanh( Conv3x3(feat)_xy + W h_t ),
         alpha = 在全部有效像素 (H 乘 有效宽度) 上的 softmax(e),
         glimpse = sum_xy alpha_xy feat_xy,   logits_t = U [h_t ; glimpse]
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SARDecoder(nn.Module):
    def __init__(self, n_char, C=16, hidden=24, att=20):
        super().__init__()
        self.emb = nn.Embedding(n_char, hidden)
        self.init = nn.Linear(C, hidden)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.conv = nn.Conv2d(C, att, 3, padding=1)
        self.w_h = nn.Linear(hidden, att, bias=False)
        self.w_e = nn.Linear(att, 1, bias=False)
        self.cls = nn.Linear(hidden + C, n_char)

    def holistic(self, feat, ok):
        """有效像素的平均值 -> 初始状态"""
        m = ok[:, None].to(feat.dtype)                     # [B,1,H,W]
        mean = (feat * m).sum((2, 3)) / m.sum((2, 3))
        return torch.tanh(self.init(mean))

    def glimpse(self, feat, key, h, ok):
        B, C, H, W = feat.shape
        g = torch.tanh(key + self.w_h(h)[:, :, None, None])        # [B,A,H,W]
        e = self.w_e(g.permute(0, 2, 3, 1)).squeeze(-1)            # [B,H,W]
        e = e.masked_fill(~ok, torch.finfo(e.dtype).min)
        a = F.softmax(e.view(B, H * W), dim=1).view(B, H, W)
        return (a[:, None] * feat).sum((2, 3)), a

    def forward(self, feat, width, text):
        B, C, H, W = feat.shape
        ok = torch.arange(W, device=feat.device)[None, None, :] < width[:, None, None]
        ok = ok.expand(B, H, W)
        key = self.conv(feat)
        h = self.holistic(feat, ok)
        c = torch.zeros_like(h)
        out = []
        for t in range(text.size(1)):
            h, c = self.cell(self.emb(text[:, t]), (h, c))
            g, _ = self.glimpse(feat, key, h, ok)
            out.append(self.cls(torch.cat([h, g], 1)))
        return torch.stack(out, 1)
