# 花札「こいこい」の方策ネットワーク
# 場札・手札・取り札を集合として扱い、ヘッド間で会話する注意 (talking-heads) を使う。
#
# 約束:
#   cards   [B, N]       札番号 0..47、-1 は空き
#   zone    [B, N]       0=手札 1=場札 2=自分の取り札 3=相手の取り札
#   見える  True = 読んでよい札、False = 空き
import torch
import torch.nn as nn
import torch.nn.functional as F

N_CARDS = 48
MONTHS = 12
POINTS = torch.tensor([20, 5, 1, 1] * 12, dtype=torch.float32) / 20.0


class TalkingHeads(nn.Module):
    """Shazeer 2020。softmax の前後にヘッド混合 (H -> H) を入れる。

    混合後の logits にマスクをかけ、キー方向に softmax、その後もう一度混ぜる。
    後段の混合のあとでは行の和は 1 にならない(論文どおり)。
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, dim * 2, bias=False)
        self.pre = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.post = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.o = nn.Linear(dim, dim)

    def forward(self, x, visible):
        B, N, _ = x.shape
        q = self.q(x).view(B, N, self.h, self.d)
        k, v = self.kv(x).view(B, N, 2, self.h, self.d).unbind(2)
        logits = torch.einsum("bqhd,bkhd->bhqk", q * self.d ** -0.5, k)
        logits = torch.einsum("bhqk,hg->bgqk", logits, self.pre)
        logits = logits.masked_fill(~visible[:, None, None, :], -torch.inf)
        w = F.softmax(logits, dim=3)
        w = torch.einsum("bgqk,gf->bfqk", w, self.post)
        y = torch.einsum("bfqk,bkfd->bqfd", w, v)
        return self.o(y.reshape(B, N, -1))


class KoiKoiPolicy(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.card = nn.Embedding(N_CARDS + 1, dim)
        self.month = nn.Embedding(MONTHS + 1, dim)
        self.zone = nn.Embedding(4, dim)
        self.pt = nn.Linear(1, dim, bias=False)
        self.att = nn.ModuleList(TalkingHeads(dim, heads) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))
            for _ in range(depth)
        )
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.play = nn.Linear(dim, 1)
        self.koikoi = nn.Linear(dim, 2)
        self.register_buffer("points", torch.cat([POINTS, torch.zeros(1)]))

    def forward(self, cards, zone):
        visible = cards >= 0
        c = torch.where(visible, cards, torch.full_like(cards, N_CARDS))
        m = torch.div(c, 4, rounding_mode="floor")
        x = self.card(c) + self.month(m) + self.zone(zone) + self.pt(self.points[c][..., None])
        for a, f, n in zip(self.att, self.ff, self.ln):
            x = x + a(n(x), visible)
            x = x + f(x)
        hand = visible & (zone == 0)                      # 出せるのは手札だけ
        play = self.play(x).squeeze(-1).masked_fill(~hand, -1e9)
        pooled = (x * visible[..., None]).sum(1) / visible.sum(1, keepdim=True)
        return F.log_softmax(play, -1), self.koikoi(pooled)


if __name__ == "__main__":
    torch.manual_seed(8)
    cards = torch.stack([torch.randperm(48)[:16], torch.randperm(48)[:16]])
    cards[1, 12:] = -1
    zone = torch.randint(0, 4, (2, 16))
    zone[:, 0] = 0
    lp, kk = KoiKoiPolicy()(cards, zone)
    print(lp.exp().sum(-1), kk.shape)
