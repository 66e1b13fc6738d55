"""사물놀이/타이코 합주 녹음에서 타점 찾기 (onset detection)

- 입력: 멜 스펙트로그램 프레임
- 어텐션 드롭아웃은 학습 때만 켜지고 평가 때는 꺼진다.
"""
from dataclasses import dataclass, field

import torch
import torch.nn as nn

악기 = ("꽹과리", "징", "장구", "북", "taiko")


@dataclass
class 설정:
    dim: int = 40
    heads: int = 4
    attn_p: float = 0.2
    layers: int = 2
    mels: int = 32
    labels: tuple = field(default_factory=lambda: 악기)


class OnsetAttention(nn.Module):
    """프레임 간 양방향 어텐션.  x: (B, T, D), length: (B,) 유효 프레임 수(>=1)."""

    def __init__(self, cfg: 설정 = 설정()):
        super().__init__()
        self.h = cfg.heads
        self.dk = cfg.dim // cfg.heads
        self.wq = nn.Linear(cfg.dim, cfg.dim)
        self.wk = nn.Linear(cfg.dim, cfg.dim)
        self.wv = nn.Linear(cfg.dim, cfg.dim)
        self.wo = nn.Linear(cfg.dim, cfg.dim)
        self.drop = nn.Dropout(cfg.attn_p)

    def forward(self, x, length=None):
        B, T, D = x.shape
        # 평가 중에는 드롭아웃을 끈다
        if not self.training:
            self.drop.p = 0.0
        q = self.wq(x).view(B, T, self.h, self.dk).transpose(1, 2)
        k = self.wk(x).view(B, T, self.h, self.dk).transpose(1, 2)
        v = self.wv(x).view(B, T, self.h, self.dk).transpose(1, 2)
        att = torch.matmul(q, k.transpose(2, 3)) * self.dk ** -0.5
        if length is not None:
            유효 = torch.arange(T, device=x.device)[None, :] < length[:, None]
            att = att.masked_fill(~유효[:, None, None, :], float("-inf"))
        att = self.drop(torch.softmax(att, dim=-1))
        y = torch.matmul(att, v).transpose(1, 2).contiguous().view(B, T, D)
        return self.wo(y)


class TaikoNet(nn.Module):
    def __init__(self, cfg: 설정 = 설정()):
        super().__init__()
        self.front = nn.Conv1d(cfg.mels, cfg.dim, 5, padding=2)
        self.blocks = nn.ModuleList(OnsetAttention(cfg) for _ in range(cfg.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.layers))
        self.out = nn.Linear(cfg.dim, len(cfg.labels))

    def forward(self, mel, length=None):
        h = self.front(mel).transpose(1, 2)
        for b, n in zip(self.blocks, self.norms):
            h = h + b(n(h), length)
        return self.out(h)


def pick_peaks(logits, thr=0.5, wait=3):
    """한 악기의 확률 열에서 국소 최대점만 고른다."""
    p = logits.sigmoid()
    hits, last = [], -wait
    for t in range(1, len(p) - 1):
        if p[t] > thr and p[t] >= p[t - 1] and p[t] > p[t + 1] and t - last >= wait:
            hits.append(t)
            last = t
    return hits


def train_epoch(model, batches, opt):
    model.train()
    for mel, length, y in batches:
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(mel, length), y)
        loss.backward()
        opt.step()
