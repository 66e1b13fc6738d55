###########################################################################
# Dual attention head for scene segmentation (position + channel)
###########################################################################
import torch
from torch.nn import Module, Sequential, Conv2d, BatchNorm2d, ReLU, Dropout2d, Parameter, Softmax

__all__ = ['PositionModule', 'ChannelModule', 'DualHead']


class PositionModule(Module):
    """ Position attention module, gamma = start value of the residual weight """

    def __init__(self, in_dim, gamma=1.):
        super(PositionModule, self).__init__()
        self.chanel_in = in_dim
        self.query_conv = Conv2d(in_channels=in_dim, out_channels=in_dim // 8, kernel_size=1)
        self.key_conv = Conv2d(in_channels=in_dim, out_channels=in_dim // 8, kernel_size=1)
        self.value_conv = Conv2d(in_channels=in_dim, out_channels=in_dim, kernel_size=1)
        self.gamma = Parameter(torch.full((1,), gamma))
        self.softmax = Softmax(dim=1)

    def forward(self, x):
        """
            inputs :
                x : input feature maps( B X C X H X W)
            returns :
                out : attention value + input feature
                attention: B X (HxW) X (HxW), [query, key]
        """
        m_batchsize, C, height, width = x.size()
        proj_query = self.query_conv(x).view(m_batchsize, -1, width * height).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(m_batchsize, -1, width * height)
        energy = torch.bmm(proj_query, proj_key)
        attention = self.softmax(energy)
        proj_value = self.value_conv(x).view(m_batchsize, -1, width * height)

        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        out = out.view(m_batchsize, C, height, width)
        out = self.gamma * out + x
        return out


class ChannelModule(Module):
    """ Channel attention module """

    def __init__(self, in_dim, beta=0.):
        super(ChannelModule, self).__init__()
        self.chanel_in = in_dim
        self.beta = Parameter(torch.full((1,), beta))
        self.softmax = Softmax(dim=-1)

    def forward(self, x):
        m_batchsize, C, height, width = x.size()
        proj_query = x.view(m_batchsize, C, -1)
        proj_key = x.view(m_batchsize, C, -1).permute(0, 2, 1)
        energy = torch.bmm(proj_query, proj_key)
        energy_new = torch.max(energy, -1, keepdim=True)[0].expand_as(energy) - energy
        attention = self.softmax(energy_new)
        proj_value = x.view(m_batchsize, C, -1)
        out = torch.bmm(attention, proj_value).view(m_batchsize, C, height, width)
        return self.beta * out + x


class DualHead(Module):
    def __init__(self, in_channels, out_channels, norm_layer=BatchNorm2d):
        super(DualHead, self).__init__()
        inter = in_channels // 4
        cbr = lambda a, b: Sequential(Conv2d(a, b, 3, padding=1, bias=False), norm_layer(b), ReLU())
        self.conv5a, self.conv5c = cbr(in_channels, inter), cbr(in_channels, inter)
        self.sa, self.sc = PositionModule(inter, 0.5), ChannelModule(inter, 0.5)
        self.conv51, self.conv52 = cbr(inter, inter), cbr(inter, inter)
        self.conv6 = Sequential(Dropout2d(0.1, False), Conv2d(inter, out_channels, 1))

    def forward(self, x):
        sa_conv = self.conv51(self.sa(self.conv5a(x)))
        sc_conv = self.conv52(self.sc(self.conv5c(x)))
        return self.conv6(sa_conv + sc_conv)
