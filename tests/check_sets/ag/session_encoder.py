"""セッションベース推薦のための双方向エンコーダ (BERT4Rec 風)。

入力は商品 ID の列 (B, L)。0 はパディング、num_items + 1 は [MASK]。
パディングは系列の左側に入る。
"""
import math

import torch
import torch.nn as nn


class MultiHeadedAttention(nn.Module):
    """通常のマルチヘッド注意。

    x:     (B, L, D)
    valid: (B, L) の bool。True は実在する商品。パディングの商品は誰からも参照されない。
    """

    def __init__(self, d_model, h, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.h, self.d_k = h, d_model // h
        self.q_linear = nn.Linear(d_model, d_model)
        self.k_linear = nn.Linear(d_model, d_model)
        self.v_linear = nn.Linear(d_model, d_model)
        self.output_linear = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, valid):
        B, L, D = x.shape
        q, k, v = (
            lin(x).view(B, L, self.h, self.d_k).transpose(1, 2)
            for lin in (self.q_linear, self.k_linear, self.v_linear)
        )
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.d_k)
        scores = scores.masked_fill(~valid[:, None, :, None], -1e9)
        p = self.dropout(scores.softmax(dim=-1))
        y = torch.einsum("bhij,bhjd->bihd", p, v).reshape(B, L, D)
        return self.output_linear(y)


class TransformerBlock(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.attention = MultiHeadedAttention(hidden, heads, dropout)
        self.ff = nn.Sequential(
            nn.Linear(hidden, hidden * 4), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(hidden * 4, hidden),
        )
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, valid):
        x = self.norm1(x + self.dropout(self.attention(x, valid)))
        return self.norm2(x + self.dropout(self.ff(x)))


class SessionEncoder(nn.Module):
    def __init__(self, num_items, max_len=50, hidden=64, heads=2, layers=2, dropout=0.1):
        super().__init__()
        self.num_items = num_items
        self.item = nn.Embedding(num_items + 2, hidden, padding_idx=0)
        self.position = nn.Embedding(max_len, hidden)
        self.blocks = nn.ModuleList(
            TransformerBlock(hidden, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(num_items + 1))

    def forward(self, seq):
        valid = seq > 0
        pos = torch.arange(seq.size(1), device=seq.device)
        x = self.norm(self.item(seq) + self.position(pos))
        for block in self.blocks:
            x = block(x, valid)
        # 出力層は埋め込み行列を共有する
        return x @ self.item.weight[:-1].t() + self.bias


def mask_items(seq, mask_id, prob=0.2, generator=None):
    """Cloze タスク用に商品をランダムに隠す。ラベルは隠した位置だけ、他は -100。"""
    r = torch.rand(seq.shape, generator=generator)
    hide = (r < prob) & (seq > 0)
    labels = torch.where(hide, seq, torch.full_like(seq, -100))
    return torch.where(hide, torch.full_like(seq, mask_id), seq), labels


if __name__ == "__main__":
    g = torch.Generator().manual_seed(0)
    seq = torch.tensor([[0, 0, 3, 5, 2], [4, 1, 1, 6, 7]])
    model = SessionEncoder(num_items=10)
    masked, labels = mask_items(seq, 11, 0.4, g)
    logits = model(masked)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    print(loss.item())
