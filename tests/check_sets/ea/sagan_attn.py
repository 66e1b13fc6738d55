import torch
import torch.nn as nn


class Self_Attn(nn.Module):
    """ Self attention layer of SAGAN (anime faces 64x64)

    inputs :
        x : input feature maps (B X C X W X H)
    returns :
        out : gamma * attended value + input feature, same shape as x
        attention: B X N X N (N is Width*Height), attention[b, i, j] says how much output
                   pixel i takes from pixel j; rows sum to one

    As in the paper the dot products f(x)^T g(x) are NOT divided by a square root.
    gamma starts at 0, so the layer is the identity at the beginning.
    """

    def __init__(self, in_dim):
        super(Self_Attn, self).__init__()
        self.chanel_in = in_dim
        self.query_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim // 8, kernel_size=1)
        self.key_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim // 8, kernel_size=1)
        self.value_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.zeros(1))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        m_batchsize, C, width, height = x.size()
        proj_query = self.query_conv(x).view(m_batchsize, -1, width * height).permute(0, 2, 1)  # B X N X c
        proj_key = self.key_conv(x).view(m_batchsize, -1, width * height)  # B X c X N
        energy = torch.bmm(proj_query, proj_key)
        attention = self.softmax(energy)  # B X N X N
        proj_value = self.value_conv(x).view(m_batchsize, -1, width * height)  # B X C X N

        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        out = out.view(m_batchsize, C, width, height)
        out = self.gamma * out + x
        return out, attention
