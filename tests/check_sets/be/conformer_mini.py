# Conformer encoder, trimmed for on-device keyword spotting.
# Features: log-mel (batch, time, n_mels)
import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvModule(nn.Module):
    def __init__(self, d, kernel=7):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.pw1 = nn.Conv1d(d, 2 * d, 1)
        self.dw = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.bn = nn.BatchNorm1d(d)
        self.pw2 = nn.Conv1d(d, d, 1)

    def forward(self, x):
        y = self.ln(x).transpose(1, 2)
        y = F.glu(self.pw1(y), dim=1)
        y = self.pw2(F.silu(self.bn(self.dw(y))))
        return y.transpose(1, 2)


class MHSAModule(nn.Module):
    """Full-context scaled dot-product self attention, pre-norm.

    x: (batch, time, d_model), frame_lengths: (batch,) number of valid frames or None
    """

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.layer_norm = nn.LayerNorm(d_model)
        self.linear_q = nn.Linear(d_model, d_model)
        self.linear_k = nn.Linear(d_model, d_model)
        self.linear_v = nn.Linear(d_model, d_model)
        self.linear_out = nn.Linear(d_model, d_model)

    def forward(self, x, frame_lengths=None):
        B, T, D = x.shape
        x = self.layer_norm(x)
        q = self.linear_q(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)

        scores = torch.matmul(q, k.transpose(-2, -1)) / self.n_head ** 0.5
        if frame_lengths is not None:
            valid = torch.arange(T, device=x.device) < frame_lengths[:, None]
            scores = scores.masked_fill(~valid[:, None, None, :], float("-inf"))
        attn = torch.softmax(scores, dim=-1)

        ctx = torch.matmul(attn, v)
        ctx = ctx.contiguous().view(B, T, D)
        return self.linear_out(ctx)


class HalfFFN(nn.Sequential):
    def __init__(self, d):
        super().__init__(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))


class ConformerBlock(nn.Module):
    def __init__(self, d, n_head):
        super().__init__()
        self.ff1, self.ff2 = HalfFFN(d), HalfFFN(d)
        self.mhsa = MHSAModule(d, n_head)
        self.conv = ConvModule(d)
        self.norm = nn.LayerNorm(d)

    def forward(self, x, lengths=None):
        x = x + 0.5 * self.ff1(x)
        x = x + self.mhsa(x, lengths)
        x = x + self.conv(x)
        x = x + 0.5 * self.ff2(x)
        return self.norm(x)


class KeywordSpotter(nn.Module):
    def __init__(self, n_mels=40, d=32, n_head=2, blocks=2, n_words=12):
        super().__init__()
        self.inp = nn.Linear(n_mels, d)
        self.blocks = nn.ModuleList(ConformerBlock(d, n_head) for _ in range(blocks))
        self.out = nn.Linear(d, n_words)

    def forward(self, mel, lengths=None):
        x = self.inp(mel)
        for b in self.blocks:
            x = b(x, lengths)
        return self.out(x.mean(1))
