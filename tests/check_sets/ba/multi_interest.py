# 多兴趣召回:把用户行为序列压缩成若干个兴趣向量
# 行为序列长度不同,hist_len 给出每个用户的有效长度(右侧补零)
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiInterest(nn.Module):
    """输入 hist [B, L, D],hist_len [B];输出兴趣向量 [B, K, D]。

    K 个可学习的兴趣查询对行为序列做多头注意力;
    超出 hist_len 的位置不参与计算(每个用户至少有一个行为)。
    """

    def __init__(self, dim, n_interest=4, n_head=2, max_len=50):
        super().__init__()
        assert dim % n_head == 0
        self.n_head = n_head
        self.hd = dim // n_head
        self.interest = nn.Parameter(torch.randn(n_interest, dim))
        self.pos = nn.Parameter(torch.zeros(max_len, dim))
        self.w_q = nn.Linear(dim, dim)
        self.w_k = nn.Linear(dim, dim)
        self.w_v = nn.Linear(dim, dim)
        self.w_o = nn.Linear(dim, dim)

    def fold(self, x):
        # [B, L, D] -> [B*H, L, hd],样本在外,头在内
        B, L, _ = x.shape
        return x.view(B, L, self.n_head, self.hd).transpose(1, 2).reshape(B * self.n_head, L, self.hd)

    def unfold(self, x, B):
        return x.view(B, self.n_head, -1, self.hd).transpose(1, 2).reshape(B, -1, self.n_head * self.hd)

    def forward(self, hist, hist_len):
        B, L, _ = hist.shape
        h = hist + self.pos[:L]
        q = self.fold(self.w_q(self.interest).unsqueeze(0).expand(B, -1, -1))
        k, v = self.fold(self.w_k(h)), self.fold(self.w_v(hist))
        score = torch.bmm(q, k.transpose(1, 2)) / self.hd ** 0.5
        invalid = torch.arange(L, device=hist.device)[None, :] >= hist_len[:, None]
        invalid = invalid.repeat(self.n_head, 1).unsqueeze(1)      # [B*H, 1, L]
        score = score.masked_fill(invalid, -1e9)
        out = torch.bmm(F.softmax(score, dim=-1), v)
        return self.w_o(self.unfold(out, B))


def label_aware(interests, target, power=2.0):
    """训练时用目标物品挑选兴趣。interests [B, K, D],target [B, D] -> [B, D]"""
    w = (interests @ target.unsqueeze(-1)).squeeze(-1)
    w = F.softmax(torch.clamp(w, min=1e-6) ** power, dim=-1)
    return (w.unsqueeze(-1) * interests).sum(dim=1)


def recall_topk(interests, items, k=20):
    """每个物品取各兴趣的最大分。interests [B, K, D],items [N, D]"""
    return (interests @ items.T).amax(dim=1).topk(k, dim=-1).indices
