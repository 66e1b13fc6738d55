"""救护车—急诊交接单摘要模型。

每个病人在车上有若干条记录(生命体征、用药、处置),条数不同,后面补零。
约定:padding 为 True 表示该条是补零,任何查询都不能看它。
"""
import torch
import torch.nn as nn


class FoldHeads:
    """把头并到批次维,方便用 bmm。批次在外、头在内:下标 = b * H + h。"""

    def __init__(self, heads):
        self.heads = heads

    def fold(self, x):
        b, n, d = x.shape
        x = x.reshape(b, n, self.heads, d // self.heads).transpose(1, 2)
        return x.reshape(b * self.heads, n, -1)

    def unfold(self, x):
        bh, n, d = x.shape
        x = x.reshape(bh // self.heads, self.heads, n, d).transpose(1, 2)
        return x.reshape(bh // self.heads, n, -1)


class RecordEncoder(nn.Module):
    # 数值 + 类别 -> 向量
    def __init__(self, kinds, dim):
        super().__init__()
        self.kind = nn.Embedding(kinds, dim)
        self.value = nn.Linear(1, dim)
        self.minutes = nn.Linear(1, dim, bias=False)

    def forward(self, kind, value, minutes):
        return self.kind(kind) + self.value(value[..., None]) + self.minutes(minutes[..., None] / 60)


class HandoverAttention(nn.Module):
    """问题(交接单的固定栏目)对记录的多头注意力。

    ask      [B, Q, dim]
    records  [B, N, dim]
    padding  [B, N]  True = 补零;每个病人至少有一条真实记录
    """

    def __init__(self, dim=24, heads=4, p=0.0):
        super().__init__()
        self.folder = FoldHeads(heads)
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, ask, records, padding):
        q = self.folder.fold(self.to_q(ask)) * self.scale
        k = self.folder.fold(self.to_k(records))
        v = self.folder.fold(self.to_v(records))
        logits = torch.bmm(q, k.transpose(1, 2))                 # [B*H, Q, N]
        blocked = padding.repeat(self.heads, 1).unsqueeze(1)     # [B*H, 1, N]
        logits = logits.masked_fill(blocked, float("-inf"))
        attn = self.drop(logits.softmax(dim=-1))
        return self.to_out(self.folder.unfold(torch.bmm(attn, v)))


class HandoverSheet(nn.Module):
    """九个固定栏目:MIST 四栏、过敏、用药、既往史、联系人、备注。"""

    FIELDS = 9

    def __init__(self, kinds=40, dim=24, vocab=300):
        super().__init__()
        self.enc = RecordEncoder(kinds, dim)
        self.fields = nn.Parameter(torch.randn(self.FIELDS, dim) * 0.02)
        self.attn = HandoverAttention(dim)
        self.norm = nn.LayerNorm(dim)
        self.word = nn.Linear(dim, vocab)

    def forward(self, kind, value, minutes, count):
        rec = self.enc(kind, value, minutes)
        padding = torch.arange(kind.shape[1])[None] >= count[:, None]
        ask = self.fields.expand(kind.shape[0], -1, -1)
        return self.word(self.norm(ask + self.attn(ask, rec, padding)))


if __name__ == "__main__":
    m = HandoverSheet().eval()
    y = m(torch.randint(0, 40, (3, 7)), torch.randn(3, 7), torch.rand(3, 7) * 60, torch.tensor([7, 3, 5]))
    print(y.argmax(-1))
