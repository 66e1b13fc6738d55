"""Appearance association for the online multi-object tracker.

Every live track attends over the detections of the new frame.  Two things
forbid a detection:

* it is a padding slot (frames of a batch have different numbers of boxes;
  padding slots hold zero features and the centre (-1e4, -1e4));
* its centre is farther than ``radius`` pixels from the predicted track centre.

A track with no admissible detection reads zeros, so that its embedding stays
what the motion model left there ("coasting").
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class AssocConfig:
    dim: int = 32
    heads: int = 2
    radius: float = 60.0
    momentum: float = 0.9


class TrackDetectionAttention(nn.Module):

    def __init__(self, cfg: AssocConfig = AssocConfig()):
        super().__init__()
        self.cfg = cfg
        self.q = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.k = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.v = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.cfg.heads, -1)).transpose(1, 2)

    def forward(self, tracks, dets, track_xy, det_xy, det_valid):
        """
        tracks    [B, T, C]   track_xy [B, T, 2]
        dets      [B, N, C]   det_xy   [B, N, 2]   det_valid [B, N] bool
        returns updated track embeddings [B, T, C]
        """
        q, k, v = self.split(self.q(tracks)), self.split(self.k(dets)), self.split(self.v(dets))
        scores = q @ k.mT / q.shape[-1] ** 0.5                       # [B, H, T, N]

        too_far = torch.cdist(track_xy, det_xy) > self.cfg.radius    # [B, T, N]
        lowest = torch.finfo(scores.dtype).min
        pad_bias = torch.zeros_like(scores).masked_fill(~det_valid[:, None, None, :], lowest)
        gate_bias = torch.zeros_like(scores).masked_fill(too_far[:, None], lowest)
        weights = (scores + pad_bias + gate_bias).softmax(-1)

        admissible = det_valid[:, None, :] & ~too_far
        has_any = admissible.any(-1)[:, None, :, None]
        weights = weights * has_any
        read = self.out((weights @ v).transpose(1, 2).flatten(2))
        return tracks + (1.0 - self.cfg.momentum) * read


def pad_detections(frames, dim):
    """list of (features [n, C], centres [n, 2]) -> padded batch and validity."""
    n = max(max(f.shape[0] for f, _ in frames), 1)
    feats = torch.zeros(len(frames), n, dim)
    xy = torch.full((len(frames), n, 2), -1e4)
    valid = torch.zeros(len(frames), n, dtype=torch.bool)
    for i, (f, c) in enumerate(frames):
        feats[i, : len(f)], xy[i, : len(f)], valid[i, : len(f)] = f, c, True
    return feats, xy, valid
