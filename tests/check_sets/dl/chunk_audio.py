"""流式语音识别编码器的分块注意力 (WeNet 风格)。

训练时整句输入,用分块掩码;推理时逐块输入,带左侧缓存。两种方式的结果必须一致。
A frame sees all frames of its own chunk and of the `left` chunks before it (chunk size C).
The last chunk of an utterance may be shorter than C.
"""
import torch
from torch import nn


class ChunkAttention(nn.Module):
    def __init__(self, dim, heads, chunk=4, left=2):
        super().__init__()
        self.chunk, self.left = chunk, left
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, x, lens):
        """整句: x (B, T, dim),lens (B,) 为有效帧数 (>= 1)。返回 (B, T, dim)。
        无效帧(t >= lens[b])的输出置零。"""
        t = x.shape[1]
        block = torch.arange(t) // self.chunk
        gap = block[:, None] - block[None, :]
        banned = (gap < 0) | (gap > self.left)             # True = 不可见
        pad = torch.arange(t)[None, :] >= lens[:, None]    # True = 填充
        heads = self.mha.num_heads
        ban = banned[None] | pad[:, None, :]
        # 填充帧自身至少看见自己,以免整行被屏蔽
        ban = ban & ~(pad[:, :, None] & torch.eye(t, dtype=torch.bool))
        ban = ban.repeat_interleave(heads, dim=0)          # (B*heads, T, T)
        y, _ = self.mha(x, x, x, attn_mask=ban, need_weights=False)
        return y.masked_fill(pad[..., None], 0.0)

    def forward_chunk(self, x, cache=None):
        """逐块: x (B, <=C, dim),cache (B, P, dim) 为之前最多 left*C 帧的输入,或 None。
        返回 (B, <=C, dim) 以及新的 cache。"""
        ctx = x if cache is None else torch.cat((cache, x), dim=1)
        y, _ = self.mha(x, ctx, ctx, need_weights=False)
        keep = min(self.left * self.chunk, ctx.shape[1])
        return y, ctx[:, ctx.shape[1] - keep:]
