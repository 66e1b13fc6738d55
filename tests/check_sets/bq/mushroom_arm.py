"""Picking arm for oyster mushrooms. The driver speaks NumPy, the policy torch.

`CapCrossAttention.__call__` is what the 50 Hz loop uses: joint tokens (queries)
look at detected caps (keys).  Two masks come from two teams:

* ``visible``  (B, caps)   bool, True  = the depth camera sees the cap
* ``occluded`` (B, J, caps) bool, True = joint j cannot reach the cap, skip it
"""
import numpy as np
import torch
from torch import nn

JOINTS = ("base", "shoulder", "elbow", "wrist_pitch", "wrist_roll", "suction")
LIMITS = np.deg2rad(np.array([[-170, 170], [-100, 100], [-130, 130], [-110, 110], [-180, 180], [0, 0]], float))


def clip_joints(q):
    return np.clip(q, LIMITS[:, 0], LIMITS[:, 1])


def ripe(diameter_mm, lo=40.0, hi=90.0):
    return (diameter_mm >= lo) & (diameter_mm <= hi)


class CapCrossAttention(nn.Module):
    """NumPy in, NumPy out (float32); joints with nothing to look at receive zeros."""

    def __init__(self, dim=32, cap_dim=10, heads=4):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, kdim=cap_dim, vdim=cap_dim, bias=False, batch_first=True)

    def forward(self, joints, caps, visible=None, occluded=None):
        joints = torch.as_tensor(np.asarray(joints), dtype=torch.float32)
        caps = torch.as_tensor(np.asarray(caps), dtype=torch.float32)
        B, J, _ = joints.shape
        C = caps.shape[1]

        drop = np.zeros((B, J, C), dtype=bool)
        if visible is not None:
            drop |= ~np.asarray(visible, dtype=bool)[:, None, :]
        if occluded is not None:
            drop |= np.asarray(occluded, dtype=bool)
        blind = drop.all(axis=-1)
        drop[blind] = False               # keeps softmax finite, zeroed below

        # torch: True = not allowed; per-head masks are ordered (batch, head)
        attn_mask = torch.from_numpy(np.repeat(drop, self.mha.num_heads, axis=0))
        with torch.no_grad():
            y, _ = self.mha(joints, caps, caps, attn_mask=attn_mask, need_weights=False)
        y = y.numpy().copy()
        y[blind] = 0.0
        return y


class PickingPolicy:
    def __init__(self, dim=32, seed=0):
        g = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.embed = g.normal(0, 0.3, (2, dim)).astype(np.float32)
        self.ident = g.normal(0, 0.3, (len(JOINTS), dim)).astype(np.float32)
        self.look = CapCrossAttention(dim)
        self.readout = g.normal(0, dim ** -0.5, dim).astype(np.float32)

    def tokens(self, angle, speed):
        """angle, speed (B, J) -> (B, J, dim)"""
        return np.stack([angle, speed], -1).astype(np.float32) @ self.embed + self.ident

    def act(self, angle, speed, caps, diameter_mm, occluded=None, dt=0.02):
        t = self.tokens(angle, speed)
        t = t + self.look(t, caps, visible=ripe(diameter_mm), occluded=occluded)
        return clip_joints(angle + dt * np.tanh(t @ self.readout))


def main():
    g = np.random.default_rng(4)
    pol = PickingPolicy()
    caps = g.normal(size=(1, 7, 10))
    print(pol.act(np.zeros((1, 6)), np.zeros((1, 6)), caps, g.uniform(20, 100, (1, 7))))


if __name__ == "__main__":
    main()
