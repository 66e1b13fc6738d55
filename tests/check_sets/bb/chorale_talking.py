# Bach chorale model, "talking heads" variant (Shazeer 2020).
# Los comentarios largos estan en espanol porque el taller era en Valencia.
from torch import nn
import torch

VOCES = ("soprano", "alto", "tenor", "bajo")


class CabezasParlantes(nn.Module):
    """Atencion causal en la que las cabezas se mezclan dos veces.

    Se mezclan los logits (W_l, antes del softmax) y los pesos (W_w, despues).
    Tras la segunda mezcla las filas ya no suman 1, y asi esta en el articulo.
    `oculto`: (B, T) con 1 en los pasos de relleno; el relleno va siempre al final.
    """

    def __init__(self, d_modelo, cabezas, d_cabeza, p=0.0):
        super().__init__()
        self.h, self.d = cabezas, d_cabeza
        self.q = nn.Linear(d_modelo, cabezas * d_cabeza, bias=False)
        self.kv = nn.Linear(d_modelo, 2 * cabezas * d_cabeza, bias=False)
        self.W_l = nn.Parameter(torch.eye(cabezas) + 0.1 * torch.randn(cabezas, cabezas))
        self.W_w = nn.Parameter(torch.eye(cabezas) + 0.1 * torch.randn(cabezas, cabezas))
        self.sal = nn.Linear(cabezas * d_cabeza, d_modelo)
        self.drop = nn.Dropout(p)

    def forward(self, x, oculto=None):
        B, T, _ = x.shape
        q = self.q(x).reshape(B, T, self.h, self.d)
        k, v = self.kv(x).reshape(B, T, 2, self.h, self.d).unbind(2)

        logits = torch.einsum('bihd,bjhd->bhij', q, k) / self.d ** .5
        logits = torch.einsum('bhij,hg->bgij', logits, self.W_l)
        # la mascara va despues de la mezcla: -inf * peso negativo seria +inf
        tapar = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        if oculto is not None:
            tapar = tapar | oculto.bool()[:, None, None, :]
        logits = logits.masked_fill(tapar, float('-inf'))
        pesos = logits.softmax(-1)
        pesos = torch.einsum('bgij,gh->bhij', pesos, self.W_w)
        z = torch.einsum('bhij,bjhd->bihd', self.drop(pesos), v)
        return self.sal(z.reshape(B, T, -1))


class Coral(nn.Module):
    def __init__(self, notas=130, d=64, capas=2):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(notas, d) for _ in VOCES)
        self.pos = nn.Embedding(512, d)
        self.capas = nn.ModuleList(
            nn.ModuleDict(dict(n=nn.LayerNorm(d), a=CabezasParlantes(d, 4, 16),
                               m=nn.LayerNorm(d), f=nn.Linear(d, d)))
            for _ in range(capas))
        self.sal = nn.ModuleList(nn.Linear(d, notas) for _ in VOCES)

    def forward(self, acordes):
        x = sum(e(acordes[..., i]) for i, e in enumerate(self.emb))
        x = x + self.pos.weight[: x.shape[1]]
        for c in self.capas:
            x = x + c['a'](c['n'](x))
            x = x + torch.relu(c['f'](c['m'](x)))
        return torch.stack([s(x) for s in self.sal], dim=-2)
