"""SASRec (Kang & McAuley, 2018) 的单层自注意力模块, PyTorch 复现版.

与原论文的 TF 代码保持一致:
  * query 先过 LayerNorm, key / value 用没有归一化的输入;
  * 残差加在归一化之后的 query 上;
  * 左侧 padding (item id = 0), 每个 block 结束后把 padding 位置清零.
"""
import torch
from torch import nn


class PointWiseFeedForward(nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.w1 = nn.Conv1d(hidden, hidden, 1)
        self.w2 = nn.Conv1d(hidden, hidden, 1)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        y = self.drop(self.w1(x.transpose(1, 2)).relu())
        y = self.drop(self.w2(y)).transpose(1, 2)
        return x + y


class SASRecBlock(nn.Module):
    """一层: 因果自注意力 + 逐点前馈.

    参数
    ----
    x    : (B, L, D) 已加位置编码的序列
    keep : (B, L) bool, True 表示真实物品, False 表示 padding
    """

    def __init__(self, hidden: int = 48, heads: int = 3, dropout: float = 0.2):
        super().__init__()
        assert hidden % heads == 0
        self.h, self.dk = heads, hidden // heads
        self.norm_q = nn.LayerNorm(hidden, eps=1e-8)
        self.norm_f = nn.LayerNorm(hidden, eps=1e-8)
        self.Wq = nn.Linear(hidden, hidden)
        self.Wk = nn.Linear(hidden, hidden)
        self.Wv = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(dropout)
        self.ffn = PointWiseFeedForward(hidden, dropout)

    def _heads(self, t):
        b, l, _ = t.shape
        return t.view(b, l, self.h, self.dk).permute(0, 2, 1, 3)

    def forward(self, x, keep):
        b, l, d = x.shape
        q_in = self.norm_q(x)
        q, k, v = self._heads(self.Wq(q_in)), self._heads(self.Wk(x)), self._heads(self.Wv(x))

        logits = torch.einsum("bhid,bhjd->bhij", q, k) / self.dk ** 0.5
        causal = torch.ones(l, l, dtype=torch.bool, device=x.device).tril()
        visible = causal & keep[:, None, None, :]
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        att = self.drop(logits.softmax(dim=-1))

        ctx = torch.einsum("bhij,bhjd->bhid", att, v)
        ctx = ctx.permute(0, 2, 1, 3).reshape(b, l, d)
        y = q_in + ctx
        y = self.ffn(self.norm_f(y))
        # padding 的位置没有可见的 key, 输出直接清零
        return y * keep.unsqueeze(-1)
