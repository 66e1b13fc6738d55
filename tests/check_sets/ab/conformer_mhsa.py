"""Self-attention half of the conformer encoder (streaming off)."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class EncoderConf:
    feat: int = 144
    heads: int = 4
    dropout: float = 0.1
    conv_kernel: int = 15


def lengths_to_padding(lengths, max_len):
    """True where a frame is only padding. (B,) -> (B, T)"""
    steps = torch.arange(max_len, device=lengths.device)
    return steps[None, :] >= lengths[:, None]


class ConvModule(nn.Module):
    def __init__(self, conf: EncoderConf):
        super().__init__()
        self.norm = nn.LayerNorm(conf.feat)
        self.pw1 = nn.Conv1d(conf.feat, 2 * conf.feat, 1)
        self.dw = nn.Conv1d(conf.feat, conf.feat, conf.conv_kernel,
                            padding=conf.conv_kernel // 2, groups=conf.feat)
        self.pw2 = nn.Conv1d(conf.feat, conf.feat, 1)

    def forward(self, x, pad=None):
        y = self.norm(x).transpose(1, 2)
        y = nn.functional.glu(self.pw1(y), dim=1)
        if pad is not None:
            y = y.masked_fill(pad[:, None, :], 0.0)
        return self.pw2(nn.functional.silu(self.dw(y))).transpose(1, 2)


class ConformerMHSA(nn.Module):
    """Pre-norm multi head self attention over acoustic frames.

    Utterances are padded at the end to the longest in the batch; frames beyond
    ``lengths`` must not be attended to by the valid ones.
    """

    def __init__(self, conf: EncoderConf = EncoderConf()):
        super().__init__()
        assert conf.feat % conf.heads == 0
        self.h = conf.heads
        self.dk = conf.feat // conf.heads
        self.norm = nn.LayerNorm(conf.feat)
        self.to_q = nn.Linear(conf.feat, conf.feat)
        self.to_k = nn.Linear(conf.feat, conf.feat, bias=False)
        self.to_v = nn.Linear(conf.feat, conf.feat)
        self.proj = nn.Linear(conf.feat, conf.feat)
        self.drop = nn.Dropout(conf.dropout)

    def _heads(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.h, self.dk).transpose(1, 2)

    def forward(self, x, lengths=None):
        """x: (batch, time, feat); lengths: (batch,) number of real frames"""
        b, n, c = x.shape
        y = self.norm(x)
        q, k, v = self._heads(self.to_q(y)), self._heads(self.to_k(y)), self._heads(self.to_v(y))

        scores = torch.matmul(q, k.transpose(-2, -1)) / self.dk ** 0.5
        if lengths is not None:
            pad = lengths_to_padding(lengths, n)
            pad = pad.unsqueeze(1).unsqueeze(3)
            scores = scores.masked_fill(pad, torch.finfo(scores.dtype).min)
        attn = torch.softmax(scores, dim=-1)

        out = torch.matmul(self.drop(attn), v)
        out = out.transpose(1, 2).reshape(b, n, c)
        return self.drop(self.proj(out))
