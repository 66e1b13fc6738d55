# ViT para clasificar nubes en imágenes de satélite (9 clases, 64x64, 4 canales)
import torch
import torch.nn as nn


class Parches(nn.Module):
    def __init__(self, lado=64, parche=16, canales=4, dim=48):
        super().__init__()
        self.n = (lado // parche) ** 2
        self.proy = nn.Conv2d(canales, dim, parche, stride=parche)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, self.n + 1, dim) * 0.02)

    def forward(self, img):
        x = self.proy(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        return x + self.pos


class AtencionMultiple(nn.Module):
    """Atención de producto escalar escalado de Vaswani et al.; cada cabeza trabaja con
    dim // cabezas canales consecutivos de cada parche."""

    def __init__(self, dim, cabezas, p=0.0):
        super().__init__()
        if dim % cabezas:
            raise ValueError("dim debe ser múltiplo de cabezas")
        self.dim = dim
        self.cabezas = cabezas
        self.dim_cabeza = dim // cabezas
        self.consulta = nn.Linear(dim, dim)
        self.clave = nn.Linear(dim, dim)
        self.valor = nn.Linear(dim, dim)
        self.salida = nn.Linear(dim, dim)
        self.abandono = nn.Dropout(p)

    def separar(self, x):
        # (lote, n, dim) -> (lote, cabezas, n, dim_cabeza)
        return x.reshape(x.shape[0], self.cabezas, x.shape[1], self.dim_cabeza)

    def forward(self, x):
        lote, n, _ = x.shape
        q = self.separar(self.consulta(x))
        k = self.separar(self.clave(x))
        v = self.separar(self.valor(x))
        energia = torch.einsum("bhqd,bhkd->bhqk", q, k)
        pesos = torch.softmax(energia / (self.dim ** 0.5), dim=-1)
        y = torch.einsum("bhqk,bhkd->bhqd", self.abandono(pesos), v)
        y = y.permute(0, 2, 1, 3).reshape(lote, n, self.dim)
        return self.salida(y)


class Bloque(nn.Module):
    def __init__(self, dim, cabezas, factor=4, p=0.1):
        super().__init__()
        self.norma1 = nn.LayerNorm(dim)
        self.norma2 = nn.LayerNorm(dim)
        self.atencion = AtencionMultiple(dim, cabezas, p)
        self.mlp = nn.Sequential(
            nn.Linear(dim, factor * dim), nn.GELU(), nn.Dropout(p), nn.Linear(factor * dim, dim), nn.Dropout(p))

    def forward(self, x):
        x = x + self.atencion(self.norma1(x))
        return x + self.mlp(self.norma2(x))


class NubesViT(nn.Module):
    def __init__(self, clases=9, dim=48, cabezas=6, capas=3):
        super().__init__()
        self.parches = Parches(dim=dim)
        self.bloques = nn.Sequential(*[Bloque(dim, cabezas) for _ in range(capas)])
        self.norma = nn.LayerNorm(dim)
        self.cabeza = nn.Linear(dim, clases)

    def forward(self, img):
        x = self.norma(self.bloques(self.parches(img)))
        return self.cabeza(x[:, 0])


def exactitud(modelo, cargador):
    modelo.eval()
    bien = total = 0
    with torch.no_grad():
        for img, y in cargador:
            bien += (modelo(img).argmax(1) == y).sum().item()
            total += len(y)
    return bien / max(total, 1)


if __name__ == "__main__":
    print(NubesViT()(torch.randn(2, 4, 64, 64)).shape)
