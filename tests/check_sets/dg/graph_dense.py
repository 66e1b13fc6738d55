import torch
import torch.nn as nn


class GraphTransformerLayer(nn.Module):
    """Scaled dot-product attention restricted to the edges of a dense graph.

    x (B, N, D) node features, A (B, N, N) with A[b, i, j] = 1 where i may read j.
    A node always reads itself.
    """

    def __init__(self, D=32, H=4):
        super().__init__()
        self.H = H
        self.Q, self.K, self.V = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.O = nn.Linear(D, D)
        self.bn1, self.bn2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ffn = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x, A):
        B, N, D = x.shape
        q = self.Q(x).view(B, N, self.H, D // self.H).permute(0, 2, 1, 3)
        k = self.K(x).view(B, N, self.H, D // self.H).permute(0, 2, 1, 3)
        v = self.V(x).view(B, N, self.H, D // self.H).permute(0, 2, 1, 3)
        e = q @ k.transpose(-2, -1) / k.size(-2) ** 0.5
        edge = A.bool() | torch.eye(N, dtype=torch.bool, device=x.device)
        e = e.masked_fill(~edge.unsqueeze(1), float("-inf"))
        y = (torch.softmax(e, dim=-1) @ v).permute(0, 2, 1, 3).reshape(B, N, D)
        x = self.bn1(x + self.O(y))
        return self.bn2(x + self.ffn(x))
