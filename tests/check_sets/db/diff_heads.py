import math
import torch
import torch.nn as nn


class Verschil(nn.Module):
    """Differential attention: tweede kaart wordt van de eerste afgetrokken."""

    def __init__(self, breedte=32, hoofden=2, diepte=1, causaal=True):
        super().__init__()
        self.h, self.dk, self.causaal = hoofden, breedte // hoofden // 2, causaal
        self.wq = nn.Linear(breedte, breedte, bias=False)
        self.wk = nn.Linear(breedte, breedte, bias=False)
        self.wv = nn.Linear(breedte, breedte, bias=False)
        self.wo = nn.Linear(breedte, breedte, bias=False)
        self.begin = 0.8 - 0.6 * math.exp(-0.3 * (diepte - 1))
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(0.1 * torch.randn(self.dk)) for _ in range(4))
        self.maat = nn.Parameter(torch.ones(2 * self.dk))

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.h, 2, self.dk).permute(0, 2, 3, 1, 4)
        k = self.wk(x).view(B, T, self.h, 2, self.dk).permute(0, 2, 3, 1, 4)
        v = self.wv(x).view(B, T, self.h, 2 * self.dk).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.dk)          # B h 2 T T
        if self.causaal:
            toekomst = torch.ones(T, T, device=x.device).triu(1).bool()
            s = s.masked_fill(toekomst, -math.inf)
        kaart = s.softmax(-1)
        lam = (self.lq1 @ self.lk1).exp() - (self.lq2 @ self.lk2).exp() + self.begin
        y = (kaart[:, :, 0] - lam * kaart[:, :, 1]) @ v
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * self.maat
        y = (1 - self.begin) * y
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))
