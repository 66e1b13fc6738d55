"""管风琴风压时间序列预测：带“会说话的头”（talking heads）的编码器。

每个音栓是一个通道；过去 L 个采样点切成小段后进入编码器，预测未来 horizon 点。
有效长度 valid_len 之后的小段是补零，任何位置都不看它们。
"""
import torch
import torch.nn as nn


class Patchify(nn.Module):
    def __init__(self, patch, dim):
        super().__init__()
        self.patch = patch
        self.lin = nn.Linear(patch, dim)

    def forward(self, x):                       # [B, L] -> [B, N, dim]
        return self.lin(x.unfold(-1, self.patch, self.patch))


class TalkingHeads(nn.Module):
    """先在 logits 上混合各头，再做 softmax，然后在权重上再混合一次。

    遮挡必须放在第一次混合之后，否则 -inf 会互相污染。
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.talk_logits = nn.Parameter(torch.eye(heads) + 0.3 * torch.randn(heads, heads))
        self.talk_weights = nn.Parameter(torch.eye(heads) + 0.3 * torch.randn(heads, heads))
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, valid_len=None):
        B, N, D = x.shape
        q, k, v = self.to_qkv(x).view(B, N, 3, self.heads, D // self.heads).unbind(2)
        dots = torch.einsum("bnhd,bmhd->bhnm", q, k) * (D // self.heads) ** -0.5
        dots = torch.einsum("bhnm,hg->bgnm", dots, self.talk_logits)
        if valid_len is not None:
            ghost = torch.arange(N, device=x.device) >= valid_len[:, None]     # True = 补零
            dots = dots.masked_fill(ghost[:, None, None], float("-inf"))
        w = torch.softmax(dots, dim=-1)
        w = torch.einsum("bhnm,hg->bgnm", w, self.talk_weights)    # 混合后每行之和不再是 1，属正常
        y = torch.einsum("bhnm,bmhd->bnhd", w, v)
        return self.to_out(y.reshape(B, N, D))


class WindPressure(nn.Module):
    def __init__(self, patch=4, dim=32, heads=4, depth=2, horizon=8):
        super().__init__()
        self.patch = Patchify(patch, dim)
        self.pos = nn.Parameter(torch.randn(1, 64, dim) * 0.02)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(dict(n1=nn.LayerNorm(dim), at=TalkingHeads(dim, heads), n2=nn.LayerNorm(dim),
                               ff=nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))))
            for _ in range(depth)
        )
        self.head = nn.Linear(dim, horizon)

    def forward(self, x, valid_len=None):
        # 可逆归一化：先减均值除标准差，输出时再还原
        mu, sd = x.mean(-1, keepdim=True), x.std(-1, keepdim=True) + 1e-5
        h = self.patch((x - mu) / sd)
        h = h + self.pos[:, : h.shape[1]]
        for b in self.blocks:
            h = h + b["at"](b["n1"](h), valid_len)
            h = h + b["ff"](b["n2"](h))
        return self.head(h[:, 0]) * sd + mu


if __name__ == "__main__":
    print(WindPressure()(torch.randn(3, 32), torch.tensor([8, 5, 2])).shape)
