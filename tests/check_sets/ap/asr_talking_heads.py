#!/usr/bin/env python3
# -*- coding: utf-8 -*-
"""Talking-heads attention layer for the ASR encoder."""

import math

import torch
from torch import nn


def make_pad_mask(lengths, maxlen=None):
    """True at padded frames.

    >>> make_pad_mask([2, 3]).tolist()
    [[False, False, True], [False, False, False]]
    """
    lengths = torch.as_tensor(lengths)
    maxlen = int(lengths.max()) if maxlen is None else maxlen
    return torch.arange(maxlen)[None, :] >= lengths[:, None]


class TalkingHeadsAttention(nn.Module):
    """Talking-Heads Attention (https://arxiv.org/abs/2003.02436).

    Args:
        n_head (int): The number of heads of q, k and v.
        n_feat (int): The number of features.
        dropout_rate (float): Dropout rate.

    """

    def __init__(self, n_head, n_feat, dropout_rate):
        super().__init__()
        assert n_feat % n_head == 0
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.pre_talk = nn.Parameter(torch.eye(n_head) + 0.02 * torch.randn(n_head, n_head))
        self.post_talk = nn.Parameter(torch.eye(n_head) + 0.02 * torch.randn(n_head, n_head))
        self.attn = None
        self.dropout = nn.Dropout(p=dropout_rate)

    def forward_qkv(self, query, key, value):
        n_batch = query.size(0)
        q = self.linear_q(query).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(key).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(value).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        return q, k, v

    def forward(self, query, key, value, mask):
        """Compute talking-heads attention.

        Args:
            query (torch.Tensor): (#batch, time1, size).
            key (torch.Tensor): (#batch, time2, size).
            value (torch.Tensor): (#batch, time2, size).
            mask (torch.Tensor): (#batch, 1, time2) or (#batch, time1, time2),
                nonzero = attend.

        Returns:
            torch.Tensor: (#batch, time1, size).

        """
        q, k, v = self.forward_qkv(query, key, value)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores = torch.einsum("bhij,hg->bgij", scores, self.pre_talk)
        if mask is not None:
            mask = mask.unsqueeze(1).eq(0)
            scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
            self.attn = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)
        else:
            self.attn = torch.softmax(scores, dim=-1)
        # the second talk mixes whole rows, so masked columns stay zero
        p_attn = torch.einsum("bhij,hg->bgij", self.attn, self.post_talk)
        p_attn = self.dropout(p_attn)
        x = torch.matmul(p_attn, v)
        x = x.transpose(1, 2).contiguous().view(query.size(0), -1, self.h * self.d_k)
        return self.linear_out(x)


class EncoderLayer(nn.Module):
    """Pre-norm encoder layer."""

    def __init__(self, size, self_attn, feed_forward, dropout_rate):
        super().__init__()
        self.self_attn = self_attn
        self.feed_forward = feed_forward
        self.norm1 = nn.LayerNorm(size, eps=1e-12)
        self.norm2 = nn.LayerNorm(size, eps=1e-12)
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, x, mask):
        residual = x
        x = self.norm1(x)
        x = residual + self.dropout(self.self_attn(x, x, x, mask))
        residual = x
        return residual + self.dropout(self.feed_forward(self.norm2(x))), mask
