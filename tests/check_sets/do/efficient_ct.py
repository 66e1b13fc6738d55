"""Efficient attention block for 3-D CT volumes (Shen et al., linear in the voxel count).

vol (B, C, D, H, W)  ->  same shape (residual added).

Per head:   rho_q = softmax of Q over its d_k channels   (each voxel on its own)
            rho_k = softmax of K over all voxels          (each channel on its own)
            out   = rho_q (rho_k^T V)
so the never-formed map rho_q rho_k^T has non-negative rows that sum to one.
No 1/sqrt(d): it isn't part of this mechanism.
"""
import torch
import torch.nn.functional as F
from torch import nn


class EfficientAttention3d(nn.Module):

    def __init__(self, channels, key_channels, head_count, value_channels):
        super().__init__()
        self.key_channels = key_channels
        self.head_count = head_count
        self.value_channels = value_channels
        self.keys = nn.Conv3d(channels, key_channels, 1)
        self.queries = nn.Conv3d(channels, key_channels, 1)
        self.values = nn.Conv3d(channels, value_channels, 1)
        self.reprojection = nn.Conv3d(value_channels, channels, 1)

    def forward(self, vol):
        n, _, D, H, W = vol.size()
        keys = self.keys(vol).reshape(n, self.key_channels, -1)
        queries = self.queries(vol).reshape(n, self.key_channels, -1)
        values = self.values(vol).reshape(n, self.value_channels, -1)
        hk = self.key_channels // self.head_count
        hv = self.value_channels // self.head_count

        attended = []
        for i in range(self.head_count):
            key = F.softmax(keys[:, i * hk:(i + 1) * hk, :], dim=2)
            query = F.softmax(queries[:, i * hk:(i + 1) * hk, :], dim=1)
            value = values[:, i * hv:(i + 1) * hv, :]
            context = key @ value.transpose(1, 2)                    # n, hk, hv
            attended.append(context.transpose(1, 2) @ query)         # n, hv, voxels
        out = torch.cat(attended, dim=1).reshape(n, self.value_channels, D, H, W)
        return self.reprojection(out) + vol
