"""Action chunking policy (ACT) for the bimanual arm: transformer that decodes a chunk of joint targets."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ACTConfig:
    dim: int = 128
    heads: int = 4
    enc_layers: int = 2
    dec_layers: int = 2
    chunk: int = 50
    n_joints: int = 14
    dropout: float = 0.1


def pad_bias(is_pad, dtype):
    """is_pad [B, S] -> additive bias [B, 1, 1, S]: 0 for real tokens, -inf for padding"""
    bias = torch.zeros(is_pad.shape, dtype=dtype, device=is_pad.device)
    return bias.masked_fill(is_pad, float("-inf"))[:, None, None, :]


class MHA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h, self.p = cfg.heads, cfg.dropout
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(cfg.dim, cfg.dim) for _ in range(4))

    def forward(self, query, key, value, bias=None):
        """bias is the additive mask made by pad_bias"""
        B, T, C = query.shape
        sh = lambda t: t.view(B, -1, self.h, C // self.h).transpose(1, 2)
        q, k, v = sh(self.wq(query)), sh(self.wk(key)), sh(self.wv(value))
        if bias is not None:
            bias = bias.to(torch.bool)
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, dropout_p=self.p if self.training else 0.0
        )
        return self.wo(out.transpose(1, 2).reshape(B, T, C))


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.sa = MHA(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.ReLU(), nn.Linear(4 * cfg.dim, cfg.dim))
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)

    def forward(self, x, pos, bias):
        x = self.n1(x + self.sa(x + pos, x + pos, x, bias))
        return self.n2(x + self.ff(x))


class DecoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.sa, self.ca = MHA(cfg), MHA(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.ReLU(), nn.Linear(4 * cfg.dim, cfg.dim))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(cfg.dim) for _ in range(3))

    def forward(self, x, mem, qpos, pos, bias):
        x = self.n1(x + self.sa(x + qpos, x + qpos, x))
        x = self.n2(x + self.ca(x + qpos, mem + pos, mem, bias))
        return self.n3(x + self.ff(x))


class ACTPolicy(nn.Module):
    def __init__(self, cfg: ACTConfig):
        super().__init__()
        self.cfg = cfg
        self.state_proj = nn.Linear(cfg.n_joints, cfg.dim)
        self.enc = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.enc_layers))
        self.dec = nn.ModuleList(DecoderLayer(cfg) for _ in range(cfg.dec_layers))
        self.query = nn.Embedding(cfg.chunk, cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.n_joints)

    def forward(self, cam_tokens, pos, qpos_joints, is_pad):
        """cam_tokens, pos [B, S, dim]; is_pad [B, S] True where a camera is missing"""
        st = self.state_proj(qpos_joints).unsqueeze(1)
        x = torch.cat([st, cam_tokens], 1)
        pos = F.pad(pos, (0, 0, 1, 0))
        bias = pad_bias(F.pad(is_pad, (1, 0), value=False), x.dtype)
        for l in self.enc:
            x = l(x, pos, bias)
        qp = self.query.weight.expand(x.size(0), -1, -1)
        y = torch.zeros_like(qp)
        for l in self.dec:
            y = l(y, x, qp, pos, bias)
        return self.head(y)


class TemporalEnsemble:
    def __init__(self, k=0.01):
        self.k, self.chunks = k, []

    def __call__(self, chunk):
        self.chunks = [c[1:] for c in self.chunks if len(c) > 1] + [chunk]
        now = torch.stack([c[0] for c in self.chunks])
        w = torch.exp(-self.k * torch.arange(len(now), dtype=now.dtype))
        return (now * (w / w.sum())[:, None]).sum(0)
