import torch
from torch import nn
import torch.nn.functional as F


class GripperPolicyBlock(nn.Module):
    """Action tokens attend to camera tokens, then an MLP (imitation policy for a gripper).

    act (B, A, dim), cam (B, N, dim). Scores are scaled by the square root of the head size.
    Dropout acts on the attention weights while training; rollouts with .eval() are
    deterministic.
    """

    def __init__(self, dim=64, heads=8, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.scale = dim ** -0.5
        self.dropout = dropout
        self.norm_act = nn.LayerNorm(dim)
        self.norm_cam = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def _split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, act, cam):
        q = self._split(self.q(self.norm_act(act)))
        k, v = map(self._split, self.kv(self.norm_cam(cam)).chunk(2, -1))
        y = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p=self.dropout,
            scale=self.scale,
        )
        act = act + self.proj(y.transpose(1, 2).flatten(2))
        return act + self.mlp(act)
