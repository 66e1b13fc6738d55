# -*- coding: utf-8 -*-
"""相声录音转写：带束搜索（beam search）的解码层。

每一步先选出存活的假设，再用 reorder() 让缓存与假设对齐：
reorder 之后，第 n 行缓存就是第 beam_idx[n] 个旧假设的历史。
"""
import math

import torch
from torch import nn


class BeamSelfAttention(nn.Module):
    """逐词自注意力；缓存形状 [假设数, 头, 已解码长度, d]。"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.clear()

    def clear(self):
        self.k_cache = None
        self.v_cache = None

    def reorder(self, beam_idx):
        """beam_idx: [假设数]，每个新假设来自哪个旧假设。"""
        if self.k_cache is not None:
            self.k_cache = self.k_cache.index_select(0, beam_idx)

    def forward(self, x):
        """x: [假设数, 1, dim]，当前词。"""
        n = x.shape[0]
        q, k, v = (f(x).view(n, 1, self.heads, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        if self.k_cache is not None:
            k = torch.cat([self.k_cache, k], dim=2)
            v = torch.cat([self.v_cache, v], dim=2)
        self.k_cache, self.v_cache = k, v
        # 缓存里只有过去的词，无需再加因果遮挡
        w = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.d), dim=-1)
        return self.o((w @ v).transpose(1, 2).reshape(n, 1, -1))


class TranscriptStep(nn.Module):
    def __init__(self, vocab, dim=32, heads=4, max_len=64):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.ln = nn.LayerNorm(dim)
        self.att = BeamSelfAttention(dim, heads)
        self.mix = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, tok, t, audio):
        """tok: [假设数]；audio: [假设数, dim]，整段录音的平均向量。"""
        x = (self.emb(tok) + self.pos.weight[t])[:, None]
        x = x + self.att(self.ln(x))
        h = torch.tanh(self.mix(torch.cat([x[:, 0], audio], -1)))
        return self.out(h).log_softmax(-1)


@torch.no_grad()
def beam_search(step, audio, beam=3, bos=1, max_len=8):
    """audio: [dim]。返回 (最好的词序列, 分数)。"""
    step.att.clear()
    audio = audio.expand(beam, -1)
    seq = torch.full((beam, 1), bos)
    score = torch.full((beam,), float("-inf"))
    score[0] = 0.0                         # 第一步只展开一个假设，避免重复
    for t in range(max_len):
        logp = step(seq[:, -1], t, audio)
        V = logp.shape[-1]
        score, flat = (score[:, None] + logp).flatten().topk(beam)
        src, tok = flat // V, flat % V
        seq = torch.cat([seq[src], tok[:, None]], dim=1)
        step.att.reorder(src)
    return seq[0], score[0].item()


if __name__ == "__main__":
    torch.manual_seed(0)
    print(beam_search(TranscriptStep(20).eval(), torch.randn(32)))
