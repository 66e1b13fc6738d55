#!/usr/bin/env python
# Kaggle: Google Brain - Ventilator Pressure Prediction
# notebook -> script. LB 0.158 with 10 folds (single model).
"""BiLSTM + multi-head self-attention over the 80 time steps of a breath."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CFG:
    n_num = 5          # u_in, u_in_cumsum, u_in_diff1, u_in_diff2, time_delta
    n_rc = 9           # R_C pairs
    hidden = 64
    heads = 4
    layers = 2
    dropout = 0.0
    seq_len = 80


class FeatureEmbedding(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.rc = nn.Embedding(cfg.n_rc, 4)
        self.u_out = nn.Embedding(2, 2)
        self.fc = nn.Sequential(
            nn.Linear(cfg.n_num + 6, cfg.hidden),
            nn.LayerNorm(cfg.hidden),
            nn.SiLU(),
        )

    def forward(self, num, rc, u_out):
        return self.fc(torch.cat([num, self.rc(rc), self.u_out(u_out)], dim=-1))


class AttnBlock(nn.Module):
    """x: (batch, time, hidden). Every time step looks at all the steps of its own breath."""
    def __init__(self, cfg):
        super().__init__()
        self.norm = nn.LayerNorm(cfg.hidden)
        self.mha = nn.MultiheadAttention(cfg.hidden, cfg.heads, dropout=cfg.dropout)
        self.ff = nn.Sequential(
            nn.LayerNorm(cfg.hidden),
            nn.Linear(cfg.hidden, 2 * cfg.hidden),
            nn.GELU(),
            nn.Linear(2 * cfg.hidden, cfg.hidden),
        )

    def forward(self, x):
        h = self.norm(x)
        h, _ = self.mha(h, h, h)
        x = x + h
        return x + self.ff(x)


class VentilatorNet(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.emb = FeatureEmbedding(cfg)
        self.lstm = nn.LSTM(cfg.hidden, cfg.hidden // 2, num_layers=cfg.layers,
                            batch_first=True, bidirectional=True)
        self.attn = AttnBlock(cfg)
        self.head = nn.Sequential(
            nn.Linear(cfg.hidden, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, 1))
        for n, p in self.lstm.named_parameters():
            if "weight_hh" in n:
                nn.init.orthogonal_(p)

    def forward(self, num, rc, u_out):
        x = self.emb(num, rc, u_out)
        x, _ = self.lstm(x)
        x = self.attn(x)
        return self.head(x).squeeze(-1)


def masked_mae(pred, target, u_out):
    """only the inspiratory phase is scored"""
    w = 1 - u_out.float()
    return ((pred - target).abs() * w).sum() / w.sum()


if __name__ == "__main__":
    net = VentilatorNet()
    B, T = 8, CFG.seq_len
    rc = torch.randint(0, 9, (B, 1)).expand(B, T)
    u_out = (torch.arange(T) > 30).long().expand(B, T)
    pred = net(torch.randn(B, T, CFG.n_num), rc, u_out)
    print(masked_mae(pred, torch.randn(B, T), u_out).item(), F.l1_loss(pred, torch.zeros(B, T)).item())
