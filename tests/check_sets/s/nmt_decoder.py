# 中英翻译 解码器
import torch
from torch import nn


class AdditiveScore(nn.Module):
    def __init__(self, 隐藏):
        super().__init__()
        self.Wa = nn.Linear(隐藏, 隐藏, bias=False)
        self.Ua = nn.Linear(2 * 隐藏, 隐藏)
        self.va = nn.Linear(隐藏, 1, bias=False)

    def forward(self, s, 键, 有效):
        # s: [批, 隐藏]  键: 预先算好的 Ua·h  有效: [批, 源长] 布尔
        e = self.va(torch.tanh(self.Wa(s)[:, None] + 键))[..., 0]
        e = e.masked_fill(~有效, float("-inf"))
        return torch.softmax(e, dim=1)


class Decoder(nn.Module):
    """Bahdanau 解码器: 先用上一步状态算注意力, 再进 GRU (与论文一致)"""

    def __init__(self, 词数, 嵌入=32, 隐藏=48):
        super().__init__()
        self.emb = nn.Embedding(词数, 嵌入)
        self.att = AdditiveScore(隐藏)
        self.init = nn.Linear(隐藏, 隐藏)
        self.cell = nn.GRUCell(嵌入 + 2 * 隐藏, 隐藏)
        self.out = nn.Linear(嵌入 + 3 * 隐藏, 词数)

    def forward(self, 编码, 长度, 目标):
        """编码: [批, 源长, 2*隐藏] 双向编码器输出; 长度: [批]; 目标: [批, 步] (teacher forcing)

        返回 logits [批, 步, 词数] 和权重 [批, 步, 源长]
        """
        有效 = torch.arange(编码.size(1), device=编码.device) < 长度[:, None]
        键 = self.att.Ua(编码)
        # 反向 RNN 的第一个时刻
        s = torch.tanh(self.init(编码[:, 0, self.cell.hidden_size:]))
        logits, 权重 = [], []
        for y in self.emb(目标).unbind(1):
            a = self.att(s, 键, 有效)
            c = torch.einsum("bt,btd->bd", a, 编码)
            s = self.cell(torch.cat([y, c], -1), s)
            logits.append(self.out(torch.cat([y, s, c], -1)))
            权重.append(a)
        return torch.stack(logits, 1), torch.stack(权重, 1)
