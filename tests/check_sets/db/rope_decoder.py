from dataclasses import dataclass
import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Instellingen:
    breedte: int = 48
    hoofden: int = 3
    basis: float = 10000.0


class Draailaag(nn.Module):
    """Causale laag met rotary posities, half-split zoals in de HF-code van LLaMA:
    dimensie i vormt een paar met i + d/2, en paar i draait met basis ** (-2i/d).

    x: (B, T, breedte), begin: positie van het eerste token.
    """

    def __init__(self, inst: Instellingen = Instellingen()):
        super().__init__()
        self.h, self.d = inst.hoofden, inst.breedte // inst.hoofden
        self.wq = nn.Linear(inst.breedte, inst.breedte, bias=False)
        self.wk = nn.Linear(inst.breedte, inst.breedte, bias=False)
        self.wv = nn.Linear(inst.breedte, inst.breedte, bias=False)
        self.wo = nn.Linear(inst.breedte, inst.breedte, bias=False)
        self.register_buffer("freq", inst.basis ** (-torch.arange(0, self.d, 2) / self.d))

    def draai(self, t, begin):
        hoek = torch.arange(begin, begin + t.shape[-2], device=t.device)[:, None] * self.freq
        hoek = hoek.repeat_interleave(2, dim=-1)
        a, b = t.chunk(2, dim=-1)
        return t * hoek.cos() + torch.cat([-b, a], dim=-1) * hoek.sin()

    def forward(self, x, begin=0):
        B, T, C = x.shape
        vorm = lambda y: y.view(B, T, self.h, self.d).transpose(1, 2)
        q, k, v = vorm(self.wq(x)), vorm(self.wk(x)), vorm(self.wv(x))
        q, k = self.draai(q, begin), self.draai(k, begin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))
