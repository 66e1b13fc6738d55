"""Spatio-temporal block for traffic forecasting on a sensor network.

Sensors attend to each other at every time step (multi-head, scaled dot product), then
a temporal convolution mixes the steps.  Input and output are [batch, time, sensor, feature].
"""
import torch
import torch.nn as nn


class SensorAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.proj_q = nn.Linear(d_model, d_model)
        self.proj_k = nn.Linear(d_model, d_model)
        self.proj_v = nn.Linear(d_model, d_model)
        self.proj_o = nn.Linear(d_model, d_model)
        self.normalise = nn.Softmax(dim=1)

    def heads(self, x):
        bt, n, _ = x.shape
        return x.view(bt, n, self.n_heads, self.d_head).permute(0, 2, 1, 3)

    def forward(self, x, adjacency_bias=None):
        """x: [batch*time, sensor, d]; adjacency_bias: [sensor, sensor] added to the logits"""
        q, k, v = self.heads(self.proj_q(x)), self.heads(self.proj_k(x)), self.heads(self.proj_v(x))
        logits = torch.matmul(q, k.transpose(-1, -2)) / self.d_head ** 0.5
        if adjacency_bias is not None:
            logits = logits + adjacency_bias
        weights = self.normalise(logits)
        y = torch.matmul(weights, v).permute(0, 2, 1, 3).flatten(2)
        return self.proj_o(y)


class SpatioTemporalBlock(nn.Module):
    def __init__(self, d_model: int = 24, n_heads: int = 3, kernel: int = 3):
        super().__init__()
        self.attn = SensorAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.pad = kernel - 1
        self.temporal = nn.Conv1d(d_model, 2 * d_model, kernel)

    def forward(self, x, adjacency_bias=None):
        b, t, n, d = x.shape
        flat = x.reshape(b * t, n, d)
        x = x + self.attn(self.norm1(flat), adjacency_bias).view(b, t, n, d)

        z = self.norm2(x).permute(0, 2, 3, 1).reshape(b * n, d, t)
        z = nn.functional.pad(z, (self.pad, 0))
        a, g = self.temporal(z).chunk(2, dim=1)
        z = torch.tanh(a) * torch.sigmoid(g)
        return x + z.view(b, n, d, t).permute(0, 3, 1, 2)


if __name__ == "__main__":
    blk = SpatioTemporalBlock()
    print(blk(torch.randn(2, 6, 5, 24)).shape)
