import torch
import torch.nn as nn


class Self_Attn(nn.Module):
    """Self attention layer of SAGAN on feature maps (B, C, W, H); the energies are not scaled there."""

    def __init__(self, in_dim):
        super(Self_Attn, self).__init__()
        self.query_conv = nn.Conv2d(in_channels=in_dim, out_channels=max(in_dim // 2, 1), kernel_size=1)
        self.key_conv = nn.Conv2d(in_channels=in_dim, out_channels=max(in_dim // 2, 1), kernel_size=1)
        self.value_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.full((1,), 0.5))

    def forward(self, x):
        m_batchsize, C, width, height = x.size()
        proj_query = self.query_conv(x).view(m_batchsize, -1, width * height).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(m_batchsize, -1, width * height)
        energy = torch.bmm(proj_query, proj_key)
        attention = torch.softmax(energy, dim=1)
        proj_value = self.value_conv(x).view(m_batchsize, -1, width * height)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        return self.gamma * out.view(m_batchsize, C, width, height) + x
