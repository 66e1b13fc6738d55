"""DIN (Deep Interest Network) 复现:目标商品对用户历史行为的注意力。

与论文不同,这里对打分做 softmax 归一化(开源实现中的 weight_normalization=True)。
冷启动用户没有任何历史,此时兴趣向量约定为全零。
"""
import torch
import torch.nn as nn


class Dice(nn.Module):
    """论文中的自适应激活函数。"""

    def __init__(self, dim):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False, eps=1e-8)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        p = torch.sigmoid(self.bn(x))
        return (p * x + (1 - p) * self.alpha * x).reshape(shape)


class LocalActivationUnit(nn.Module):
    def __init__(self, dim=16, hidden=(32, 16), scale=True):
        super().__init__()
        layers, n = [], 4 * dim
        for h in hidden:
            layers += [nn.Linear(n, h), Dice(h)]
            n = h
        self.mlp = nn.Sequential(*layers, nn.Linear(n, 1))

    def forward(self, target, history, lengths):
        """target: [B, D]; history: [B, T, D]; lengths: [B], 可以为 0。
        返回兴趣向量 [B, D] 和权重 [B, T]。"""
        B, T, D = history.shape
        t = target.unsqueeze(1).expand(B, T, D)
        x = torch.cat([t, history, t - history, t * history], dim=-1)
        score = self.mlp(x).squeeze(-1)                       # [B, T]

        valid = torch.arange(T, device=history.device)[None, :] < lengths[:, None]
        score = torch.where(valid, score, torch.full_like(score, float("-inf")))
        weight = torch.softmax(score, dim=-1)
        interest = torch.bmm(weight.unsqueeze(1), history).squeeze(1)
        return interest, weight


class DIN(nn.Module):
    def __init__(self, n_items=200, n_users=50, dim=16):
        super().__init__()
        self.item = nn.Embedding(n_items, dim)
        self.user = nn.Embedding(n_users, dim)
        self.attn = LocalActivationUnit(dim)
        self.head = nn.Sequential(
            nn.Linear(3 * dim, 40), Dice(40), nn.Linear(40, 1))

    def forward(self, user, target, history, lengths):
        t = self.item(target)
        interest, _ = self.attn(t, self.item(history), lengths)
        return self.head(torch.cat([self.user(user), t, interest], -1)).squeeze(-1)


if __name__ == "__main__":
    net = DIN().eval()
    hist = torch.randint(0, 200, (4, 6))
    lens = torch.tensor([6, 3, 1, 2])
    print(torch.sigmoid(net(torch.arange(4), torch.arange(4), hist, lens)))
