"""Small ACT-like policy: joint states and camera tokens in, a chunk of actions out."""
import torch
from torch import nn


class EncBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix = nn.MultiheadAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.mix(h, h, h, need_weights=False)[0]
        return x + self.ff(self.ln2(x))


class ChunkPolicy(nn.Module):
    """
    joints  (B, n_joints)
    tokens  (B, n_tok, d_cam)   camera features
    returns (B, chunk, n_joints)
    """

    def __init__(self, cfg={"n_joints": 7, "d_cam": 20, "n_tok": 9, "dim": 32, "heads": 4, "layers": 2, "chunk": 5}):
        super().__init__()
        d = cfg["dim"]
        self.chunk = cfg["chunk"]
        self.from_joints = nn.Linear(cfg["n_joints"], d)
        self.from_cam = nn.Linear(cfg["d_cam"], d)
        self.pos = nn.Parameter(torch.randn(1, 1 + cfg["n_tok"] + self.chunk, d) * 0.1)
        self.slots = nn.Parameter(torch.randn(1, self.chunk, d))
        self.enc = nn.ModuleList([EncBlock(d, cfg["heads"]) for _ in range(cfg["layers"])])
        self.to_action = nn.Linear(d, cfg["n_joints"])

    def forward(self, joints, tokens):
        B = joints.size(0)
        x = torch.cat([self.from_joints(joints).unsqueeze(1), self.from_cam(tokens),
                       self.slots.expand(B, -1, -1)], dim=1)
        x = x + self.pos
        for blk in self.enc:
            x = blk(x)
        return self.to_action(x[:, -self.chunk:])
