"""Atenção de canais para fotos de folhas (doenças do café)."""
import torch
from torch import nn


class AtencaoCanais(nn.Module):
    """
    x: (B, C, H, W) -> (B, C, H, W)

    Resume cada canal pela média e pelo máximo espaciais, passa ambos pela mesma
    rede estreita, soma e usa uma sigmoide como peso do canal. Depois o
    resultado recebe a soma residual ponderada por `alfa`.
    """

    def __init__(self, C=16, reducao=4, alfa=0.2):
        super().__init__()
        self.rede = nn.Sequential(
            nn.Linear(C, C // reducao, bias=False),
            nn.ReLU(),
            nn.Linear(C // reducao, C, bias=False),
        )
        self.alfa = nn.Parameter(torch.tensor(float(alfa)))

    def forward(self, x):
        media = x.mean(dim=(2, 3))
        maximo = x.amax(dim=(2, 3))
        peso = torch.sigmoid(self.rede(media) + self.rede(maximo))
        return x * peso[:, :, None, None] + self.alfa * x
