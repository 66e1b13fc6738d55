import torch
import torch.nn as nn


def INF(B, H, W):
    return -torch.diag(torch.tensor(float("inf")).repeat(H), 0).unsqueeze(0).repeat(B * W, 1, 1)


class CrissCrossAttention(nn.Module):
    """Every pixel attends to the pixels of its row and column (CCNet, without scaling); the pixel itself counts once."""

    def __init__(self, in_dim):
        super(CrissCrossAttention, self).__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // 2, 1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // 2, 1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, 1)
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(self, x):
        b, _, height, width = x.size()
        q, k, v = self.query_conv(x), self.key_conv(x), self.value_conv(x)
        q_H = q.permute(0, 3, 1, 2).reshape(b * width, -1, height).permute(0, 2, 1)
        q_W = q.permute(0, 2, 1, 3).reshape(b * height, -1, width).permute(0, 2, 1)
        k_H = k.permute(0, 3, 1, 2).reshape(b * width, -1, height)
        k_W = k.permute(0, 2, 1, 3).reshape(b * height, -1, width)
        v_H = v.permute(0, 3, 1, 2).reshape(b * width, -1, height)
        v_W = v.permute(0, 2, 1, 3).reshape(b * height, -1, width)
        energy_H = (torch.bmm(q_H, k_H) + INF(b, height, width)).view(b, width, height, height).permute(0, 2, 1, 3)
        energy_W = torch.bmm(q_W, k_W).view(b, height, width, width)
        concate = torch.softmax(torch.cat([energy_H, energy_W], 3), dim=3)
        att_H = concate[:, :, :, 0:height].permute(0, 2, 1, 3).reshape(b * width, height, height)
        att_W = concate[:, :, :, height : height + width].reshape(b * height, width, width)
        out_H = torch.bmm(v_H, att_H.permute(0, 2, 1)).view(b, width, -1, height).permute(0, 2, 3, 1)
        out_W = torch.bmm(v_W, att_W.permute(0, 2, 1)).view(b, height, -1, width).permute(0, 2, 1, 3)
        return self.gamma * (out_H + out_W) + x
