"""Дворукий робот для клітинних культур: узгодження рухів двох маніпуляторів.

Токени -- точки майбутньої траєкторії обох рук. Точка може враховувати лише ті точки
іншої руки, які вже заплановано; це задає матриця доступу.

Формат доступу (спільний для всього пакета `wetlab`):
    доступ[i, j] = 0.0   -- точка i бачить точку j
    доступ[i, j] = -inf  -- не бачить
Кожна точка бачить принаймні саму себе.
"""
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Graf:
    """Будує матрицю доступу з часу кожної точки та номера руки."""

    def __init__(self, hold=0.25):
        self.hold = hold          # секунд запасу на зупинку

    def __call__(self, t, arm):
        same = arm[:, None] == arm[None, :]
        done = t[None, :] + self.hold <= t[:, None]
        earlier = t[None, :] <= t[:, None]
        ok = torch.where(same, earlier, done)
        return torch.zeros(len(t), len(t)).masked_fill(~ok, float("-inf"))


class Waypoint(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.pose = nn.Linear(7, dim)       # xyz + кватерніон
        self.arm = nn.Embedding(2, dim)

    def forward(self, pose, arm):
        return self.pose(pose) + self.arm(arm)


class ArmTalk(nn.Module):
    """x [B, N, dim], доступ [N, N] або [B, N, N] у форматі пакета -> [B, N, dim]"""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.h = heads
        self.inp = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, access):
        B, N, D = x.shape
        q, k, v = self.inp(x).reshape(B, N, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        if access.dim() == 3:
            access = access.unsqueeze(1)
        y = scaled_dot_product_attention(q, k, v, attn_mask=access.to(torch.bool))
        return self.out(y.transpose(1, 2).reshape(B, N, D))


class CollisionHead(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, h):
        return self.net(h).squeeze(-1)


class TwoArms(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.way = Waypoint(dim)
        self.graf = Graf()
        self.talk = nn.ModuleList([ArmTalk(dim), ArmTalk(dim)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.head = CollisionHead(dim)

    def forward(self, pose, t, arm):
        """pose [B, N, 7], t [N] секунди, arm [N] (0 = ліва, 1 = права)"""
        access = self.graf(t, arm)
        h = self.way(pose, arm)
        for talk, norm in zip(self.talk, self.norm):
            h = h + talk(norm(h), access)
        return self.head(h).sigmoid()


if __name__ == "__main__":
    t = torch.tensor([0.0, 0.5, 1.0, 0.0, 0.4, 0.9])
    arm = torch.tensor([0, 0, 0, 1, 1, 1])
    print(TwoArms()(torch.randn(2, 6, 7), t, arm))
