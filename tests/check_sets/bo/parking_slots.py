"""駐車場カメラの物体分離 (Slot Attention, Locatello et al. 2020)

スロット同士が各画素を「奪い合う」ので softmax はスロット軸に掛ける。
その後、画素軸で割って重み付き平均にする。
"""
import torch
import torch.nn as nn


def soft_position_grid(h, w):
    """左右上下の 4 チャンネル座標"""
    ys, xs = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
    g = torch.stack([xs, ys, 1 - xs, 1 - ys], -1)
    return g.reshape(1, h * w, 4)


class ParkingSlots(nn.Module):
    """
    inputs      : [B, N, D]  画素特徴
    init_slots  : [B, K, D]  初期スロット（省略時はガウス分布から標本化）
    戻り値      : slots [B, K, D], attn [B, K, N]（各画素についてスロット方向の和が 1）
    """

    def __init__(self, num_slots=5, dim=24, iters=3, eps=1e-8, hidden=48):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slot = nn.LayerNorm(dim)
        self.norm_ff = nn.LayerNorm(dim)

    def forward(self, inputs, init_slots=None):
        B, N, D = inputs.shape
        if init_slots is None:
            noise = torch.randn(B, self.num_slots, D, device=inputs.device)
            init_slots = self.mu + self.log_sigma.exp() * noise
        slots = init_slots
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)

        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slot(slots))
            dots = torch.einsum("bkd,bnd->bkn", q, k) * self.scale
            attn = dots.softmax(dim=1)                     # スロット間の競合
            w = attn + self.eps
            w = w / w.sum(dim=-1, keepdim=True)            # 画素での加重平均
            upd = torch.einsum("bkn,bnd->bkd", w, v)
            slots = self.gru(upd.reshape(-1, D), prev.reshape(-1, D)).view(B, -1, D)
            slots = slots + self.mlp(self.norm_ff(slots))
        return slots, attn


class OccupancyNet(nn.Module):
    """スロットごとに「駐車中／空き」を判定する小さな頭"""

    def __init__(self, in_ch=3, dim=24, size=(8, 8)):
        super().__init__()
        self.size = size
        self.enc = nn.Conv2d(in_ch, dim, 5, padding=2)
        self.pos = nn.Linear(4, dim)
        self.slots = ParkingSlots(dim=dim)
        self.cls = nn.Linear(dim, 2)

    def forward(self, img):
        f = self.enc(img).flatten(2).transpose(1, 2)
        f = f + self.pos(soft_position_grid(*self.size).to(f))
        s, a = self.slots(f)
        return self.cls(s), a
