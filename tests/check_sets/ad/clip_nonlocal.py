import torch
import torch.nn as nn


class NonLocal3d(nn.Module):
    """Non-local block for clips (embedded gaussian, scaled), B x C x T x H x W."""

    def __init__(self, in_channels, bottleneck=None):
        super(NonLocal3d, self).__init__()
        self.in_channels = in_channels
        self.bottleneck = bottleneck or max(in_channels // 2, 1)
        self.query_conv = nn.Conv3d(in_channels, self.bottleneck, 1)
        self.key_conv = nn.Conv3d(in_channels, self.bottleneck, 1)
        self.value_conv = nn.Conv3d(in_channels, self.bottleneck, 1)
        self.out_conv = nn.Conv3d(self.bottleneck, in_channels, 1)
        self.bn = nn.BatchNorm3d(in_channels)
        self.temper = self.bottleneck ** 0.5
        nn.init.constant_(self.bn.weight, 0)
        nn.init.constant_(self.bn.bias, 0)

    def forward(self, x, return_map=False):
        B, C, T, H, W = x.size()
        N = T * H * W
        proj_query = self.query_conv(x).view(B, -1, N).permute(0, 2, 1)   # B x N x c
        proj_key = self.key_conv(x).view(B, -1, N)                        # B x c x N
        proj_value = self.value_conv(x).view(B, -1, N).permute(0, 2, 1)   # B x N x c

        energy = torch.bmm(proj_query, proj_key) / self.temper            # B x N x N
        attention = torch.softmax(energy, dim=1)
        out = torch.bmm(attention, proj_value)                            # B x N x c

        out = out.permute(0, 2, 1).contiguous().view(B, -1, T, H, W)
        out = self.bn(self.out_conv(out)) + x
        if return_map:
            return out, attention
        return out


class TinyClipNet(nn.Module):
    def __init__(self, classes=10):
        super(TinyClipNet, self).__init__()
        self.stem = nn.Sequential(
            nn.Conv3d(3, 16, 3, stride=(1, 2, 2), padding=1), nn.BatchNorm3d(16), nn.ReLU(),
            nn.Conv3d(16, 32, 3, stride=2, padding=1), nn.BatchNorm3d(32), nn.ReLU())
        self.nl = NonLocal3d(32)
        self.fc = nn.Linear(32, classes)

    def forward(self, clip):
        f = self.nl(self.stem(clip))
        return self.fc(f.mean(dim=(2, 3, 4)))
