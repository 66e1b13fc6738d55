# 麻雀AI：捨て牌の列から待ちを読む（talking-heads attention, Shazeer 2020）
import torch
import torch.nn as nn

N_TILES = 34


class TalkingHeads(nn.Module):
    """ヘッド間をsoftmaxの前と後で線形に混ぜる。

    x: [B, L, D]、empty: [B, L]（True = まだ捨てられていない位置、読まない。全部Trueの行は無い）
    混ぜた後にマスクを掛ける。softmax後の混合のため、重みの行の和は1とは限らない（仕様）。
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.dk = dim // heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.pre = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.post = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.out = nn.Linear(dim, dim)

    def forward(self, x, empty=None):
        B, L, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, L, self.h, self.dk).transpose(1, 2) for t in (q, k, v))
        s = torch.einsum('bhid,bhjd->bhij', q, k) * self.dk ** -0.5
        s = torch.einsum('bhij,hg->bgij', s, self.pre)      # softmax前
        if empty is not None:
            s = s.masked_fill(empty[:, None, None, :], float('-inf'))
        w = s.softmax(dim=-1)
        w = torch.einsum('bgij,gh->bhij', w, self.post)     # softmax後
        y = torch.einsum('bhij,bhjd->bhid', w, v)
        return self.out(y.transpose(1, 2).reshape(B, L, D))


class WaitReader(nn.Module):
    def __init__(self, dim=32, heads=4, max_turn=24):
        super().__init__()
        self.tile = nn.Embedding(N_TILES, dim)
        self.turn = nn.Embedding(max_turn, dim)
        self.block = TalkingHeads(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.wait = nn.Linear(dim, N_TILES)

    def forward(self, discards, n):
        """discards: [B, L] 牌番号、n: [B] 捨て牌の数"""
        L = discards.size(1)
        pos = torch.arange(L)
        empty = pos[None] >= n[:, None]
        x = self.tile(discards) + self.turn(pos)
        x = x + self.block(self.norm(x), empty)
        x = x.masked_fill(empty[..., None], 0).sum(1) / n[:, None]
        return torch.sigmoid(self.wait(x))


if __name__ == '__main__':
    print(WaitReader()(torch.randint(0, 34, (2, 12)), torch.tensor([12, 5])).shape)
