"""Grasp policy: the gripper state queries object tokens (PyBullet experiments)."""
import torch
import torch.nn as nn


class ObjectAttention(nn.Module):
    """Multi-head cross attention with heads folded into the batch.

    state (B, S, E), objects (B, O, E), present (B, O) with 1 for objects that are in
    the scene and 0 for empty slots; empty slots get no weight.
    """

    def __init__(self, embed, heads):
        super().__init__()
        self.heads = heads
        self.dim = embed // heads
        self.q = nn.Linear(embed, embed)
        self.k = nn.Linear(embed, embed)
        self.v = nn.Linear(embed, embed)
        self.o = nn.Linear(embed, embed)

    def to_heads(self, x):
        b, n, e = x.shape
        return x.reshape(b, n, self.heads, self.dim).transpose(1, 2).reshape(b * self.heads, n, self.dim)

    def from_heads(self, x, b):
        n = x.shape[1]
        return x.reshape(self.heads, b, n, self.dim).permute(1, 2, 0, 3).reshape(b, n, -1)

    def forward(self, state, objects, present=None):
        b = state.shape[0]
        q, k, v = self.to_heads(self.q(state)), self.to_heads(self.k(objects)), self.to_heads(self.v(objects))
        logits = torch.bmm(q, k.transpose(1, 2)) * self.dim ** -0.5
        if present is not None:
            m = present.repeat_interleave(self.heads, dim=0).unsqueeze(1).to(logits.dtype)
            logits = logits * m
        attn = logits.softmax(-1)
        return self.o(self.from_heads(torch.bmm(attn, v), b))


class GraspPolicy(nn.Module):
    def __init__(self, state_dim=7, obj_dim=10, embed=32, heads=4, actions=4):
        super().__init__()
        self.es = nn.Linear(state_dim, embed)
        self.eo = nn.Linear(obj_dim, embed)
        self.att = ObjectAttention(embed, heads)
        self.head = nn.Sequential(nn.Linear(embed, 64), nn.Tanh(), nn.Linear(64, actions))

    def forward(self, state, objects, present=None):
        s = self.es(state).unsqueeze(1)
        s = s + self.att(s, self.eo(objects), present)
        return self.head(s.squeeze(1))


if __name__ == "__main__":
    pol = GraspPolicy()
    a = pol(torch.randn(3, 7), torch.randn(3, 5, 10), torch.tensor([[1, 1, 0, 0, 0]] * 3))
    print(a)
