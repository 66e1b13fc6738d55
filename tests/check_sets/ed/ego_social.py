"""Ego-centred policy for a merging lane (value network of a DQN).

obs (B, V, F): V vehicles, vehicle 0 is ours.  Feature 0 is `presence`: 1 for a vehicle
that is there, 0 for an empty row.  Ours is always there.
Returns (B, actions) values, or with want_matrix=True also the (B, heads, V) weights
with which our vehicle looks at the others (and at itself); empty rows get weight 0.

Only our vehicle asks: one query per head, all vehicles are keys and values,
logits scaled by 1/sqrt(features per head).
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class EgoAttention(nn.Module):
    def __init__(self, size=64, heads=2):
        super().__init__()
        self.heads = heads
        self.per = size // heads
        self.value_all = nn.Linear(size, size, bias=False)
        self.key_all = nn.Linear(size, size, bias=False)
        self.query_ego = nn.Linear(size, size, bias=False)
        self.combine = nn.Linear(size, size, bias=False)

    def forward(self, ego, everyone, absent):
        """ego (B, size), everyone (B, V, size), absent (B, V) True = empty row"""
        B, V, _ = everyone.shape
        key = self.key_all(everyone).view(B, V, self.heads, self.per).permute(0, 2, 1, 3)
        val = self.value_all(everyone).view(B, V, self.heads, self.per).permute(0, 2, 1, 3)
        qry = self.query_ego(ego).view(B, 1, self.heads, self.per).permute(0, 2, 1, 3)
        score = torch.matmul(qry, key.transpose(-2, -1)) / np.sqrt(self.per)
        score = score.masked_fill(absent.view(B, 1, 1, V), -1e9)
        p = F.softmax(score, dim=-1)
        seen = torch.matmul(p, val).squeeze(2).reshape(B, -1)
        return (self.combine(seen) + ego) / 2, p.squeeze(2)


class EgoNetwork(nn.Module):
    def __init__(self, features=7, actions=5, size=64, heads=2):
        super().__init__()
        mlp = lambda i, o: nn.Sequential(nn.Linear(i, size), nn.ReLU(), nn.Linear(size, o))
        self.enc_ego, self.enc_other = mlp(features, size), mlp(features, size)
        self.att = EgoAttention(size, heads)
        self.out = mlp(size, actions)

    def forward(self, obs, want_matrix=False):
        absent = obs[:, :, 0] < 0.5
        ego = self.enc_ego(obs[:, 0])
        others = self.enc_other(obs[:, 1:])
        both = torch.cat([ego.unsqueeze(1), others], dim=1)
        y, p = self.att(ego, both, absent)
        q = self.out(y)
        return (q, p) if want_matrix else q
