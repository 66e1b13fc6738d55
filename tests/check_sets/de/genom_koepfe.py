import torch
from torch import nn


class Sprechkopf(nn.Module):
    """Talking-heads Schicht fuer DNA-Fenster, (B, L, D) -> (B, L, D).

    basen_da: (B, L) bool, True = lesbare Base (N und Fuellung sind False)
    """

    def __init__(self, D=32, H=4):
        super().__init__()
        self.H, self.d = H, D // H
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.vor = nn.Parameter(torch.eye(H) + 0.1 * torch.randn(H, H))
        self.nach = nn.Parameter(torch.eye(H) + 0.1 * torch.randn(H, H))
        self.aus = nn.Linear(D, D)

    def forward(self, x, basen_da=None):
        B, L, D = x.shape
        q, k, v = [t.view(B, L, self.H, self.d).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)]
        z = torch.matmul(q, k.mT) / self.d ** 0.5
        z = torch.einsum("bhij,hg->bgij", z, self.vor)
        if basen_da is not None:
            weg = ~basen_da[:, None, None, :]
            z = z.masked_fill(weg, torch.finfo(z.dtype).min)
        p = z.softmax(-1)
        if basen_da is not None:
            p = p.masked_fill(weg, 0)
        p = torch.einsum("bhij,hg->bgij", p, self.nach)
        return self.aus((p @ v).transpose(1, 2).reshape(B, L, D))
