"""给小白的 BERT：三种嵌入相加，再过几层编码器。

    词嵌入 + 位置嵌入 + 句子嵌入  ->  编码层 x N  ->  [CLS] 分类
"""
import torch
import torch.nn as nn


class BianmaCeng(nn.Module):
    """一层编码器 (Post-LN)。注意力用 PyTorch 自带的 nn.MultiheadAttention。"""

    def __init__(self, d, h, p):
        super().__init__()
        self.zhuyi = nn.MultiheadAttention(d, h, dropout=p, batch_first=True)
        self.qiankui = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)
        self.drop = nn.Dropout(p)

    def forward(self, x, hulue):
        # hulue: True = 忽略，正好是 key_padding_mask 的约定
        y, _ = self.zhuyi(x, x, x, key_padding_mask=hulue, need_weights=False)
        x = self.ln1(x + self.drop(y))
        return self.ln2(x + self.drop(self.qiankui(x)))


class XiaoBert(nn.Module):
    """双向编码器。

    ids (B, L)：词编号，0 是 [PAD]，第一个词是 [CLS]，所以每行至少一个非 0
    juzi (B, L)：0 = 第一句，1 = 第二句
    返回：分类得分 (B, n_class)。[PAD] 不影响结果：右边多补几个 [PAD] 得分不变。
    """

    def __init__(self, vocab, n_class, d=32, h=4, n=2, max_len=64, p=0.1):
        super().__init__()
        self.ci = nn.Embedding(vocab, d, padding_idx=0)
        self.weizhi = nn.Parameter(torch.randn(max_len, d) * 0.02)
        self.ju = nn.Embedding(2, d)
        self.ln = nn.LayerNorm(d)
        self.ceng = nn.ModuleList([BianmaCeng(d, h, p) for _ in range(n)])
        self.fenlei = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, n_class))

    def forward(self, ids, juzi):
        x = self.ci(ids) + self.ju(juzi) + self.weizhi[: ids.shape[1]]
        x = self.ln(x)
        hulue = ids.eq(0)
        for c in self.ceng:
            x = c(x, hulue)
        return self.fenlei(x[:, 0])
