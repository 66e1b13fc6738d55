"""Action chunking policy for the two-arm table (imitation learning).

One step of the dataset: images of `n_cam` cameras, joint positions, and the next `chunk`
actions.  All tensors in this file are batch first: [batch, tokens, dim].
"""
import math
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class PolicyConfig:
    cameras: List[str] = field(default_factory=lambda: ["top", "wrist_left", "wrist_right"])
    state_dim: int = 14
    action_dim: int = 14
    chunk: int = 20
    dim: int = 64
    heads: int = 4
    enc_layers: int = 2
    dec_layers: int = 1
    dropout: float = 0.1


def sincos_2d(h, w, dim):
    """[h*w, dim]: a quarter of the channels each for sin/cos of the row and of the column."""
    freq = 10000.0 ** (-torch.arange(dim // 4) / (dim // 4))
    y = torch.arange(h)[:, None] * freq
    x = torch.arange(w)[:, None] * freq
    row = torch.cat([y.sin(), y.cos()], -1)[:, None].expand(h, w, -1)
    col = torch.cat([x.sin(), x.cos()], -1)[None].expand(h, w, -1)
    return torch.cat([row, col], -1).reshape(h * w, dim)


class Backbone(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=4, padding=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, dim, 3, stride=2, padding=1))

    def forward(self, img):
        f = self.net(img)
        pos = sincos_2d(f.shape[-2], f.shape[-1], f.shape[1]).to(f)
        return f.flatten(2).transpose(1, 2) + pos


class ObservationEncoder(nn.Module):
    """Mixes the tokens of one observation: camera patches and the joint token."""

    def __init__(self, cfg: PolicyConfig):
        super().__init__()
        self.attn = nn.ModuleList(
            nn.MultiheadAttention(cfg.dim, cfg.heads, dropout=cfg.dropout) for _ in range(cfg.enc_layers))
        self.norm1 = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.enc_layers))
        self.norm2 = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.enc_layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.ReLU(), nn.Dropout(cfg.dropout),
                          nn.Linear(4 * cfg.dim, cfg.dim)) for _ in range(cfg.enc_layers))

    def forward(self, tokens):
        """tokens [batch, tokens, dim]"""
        for attn, n1, n2, ff in zip(self.attn, self.norm1, self.norm2, self.ff):
            h = n1(tokens)
            tokens = tokens + attn(h, h, h, need_weights=False)[0]
            tokens = tokens + ff(n2(tokens))
        return tokens


class ChunkDecoder(nn.Module):
    def __init__(self, cfg: PolicyConfig):
        super().__init__()
        self.query = nn.Parameter(torch.randn(cfg.chunk, cfg.dim) / math.sqrt(cfg.dim))
        layer = nn.TransformerDecoderLayer(cfg.dim, cfg.heads, 4 * cfg.dim, cfg.dropout,
                                           batch_first=True, norm_first=True)
        self.dec = nn.TransformerDecoder(layer, cfg.dec_layers, nn.LayerNorm(cfg.dim))
        self.head = nn.Linear(cfg.dim, cfg.action_dim)

    def forward(self, memory):
        q = self.query.expand(memory.shape[0], -1, -1)
        return self.head(self.dec(q, memory))


class ActionChunkPolicy(nn.Module):
    def __init__(self, cfg: PolicyConfig):
        super().__init__()
        self.cfg = cfg
        self.backbone = Backbone(cfg.dim)
        self.cam_embed = nn.Parameter(0.02 * torch.randn(len(cfg.cameras), cfg.dim))
        self.joint = nn.Linear(cfg.state_dim, cfg.dim)
        self.encoder = ObservationEncoder(cfg)
        self.decoder = ChunkDecoder(cfg)

    def forward(self, images, qpos):
        """images [batch, cam, 3, h, w], qpos [batch, state_dim] -> actions [batch, chunk, action_dim]"""
        toks = [self.joint(qpos)[:, None]]
        for i in range(len(self.cfg.cameras)):
            toks.append(self.backbone(images[:, i]) + self.cam_embed[i])
        return self.decoder(self.encoder(torch.cat(toks, 1)))


class TemporalEnsemble:
    """Exponential averaging of all chunks that cover the present time step."""

    def __init__(self, chunk, m=0.01):
        self.chunk, self.m, self.kept = chunk, m, []

    def __call__(self, actions):
        self.kept.append(actions)
        self.kept = self.kept[-self.chunk:]
        now = torch.stack([a[len(self.kept) - 1 - i] for i, a in enumerate(self.kept)])
        w = torch.exp(-self.m * torch.arange(len(self.kept), dtype=now.dtype))
        return (now * (w / w.sum())[:, None]).sum(0)


def loss_fn(policy, images, qpos, actions, is_pad):
    l1 = F.l1_loss(policy(images, qpos), actions, reduction="none")
    return (l1 * ~is_pad[..., None]).mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = PolicyConfig()
    pol = ActionChunkPolicy(cfg).eval()
    ens = TemporalEnsemble(cfg.chunk)
    for _ in range(3):
        a = ens(pol(torch.randn(1, 3, 3, 64, 64), torch.randn(1, 14))[0])
    print(a.shape)
