"""Lee un registro ECG largo con un Perceiver pequeño.

Un conjunto fijo de vectores latentes consulta todas las muestras (atención cruzada) y
luego los latentes hablan entre sí (autoatención).  ``signal_ok`` es True donde el
electrodo tenía contacto; las demás muestras no se leen.
"""
import torch
import torch.nn as nn


class Atencion(nn.Module):
    """Atención multi-cabeza con dimensiones distintas para consulta y contexto."""

    def __init__(self, dim_q, dim_kv, cabezas=4, dim_cabeza=8):
        super().__init__()
        interno = cabezas * dim_cabeza
        self.cabezas = cabezas
        self.norm_q = nn.LayerNorm(dim_q)
        self.norm_kv = nn.LayerNorm(dim_kv)
        self.a_q = nn.Linear(dim_q, interno, bias=False)
        self.a_kv = nn.Linear(dim_kv, interno * 2, bias=False)
        self.salida = nn.Linear(interno, dim_q)

    def forward(self, x, contexto, valido=None):
        b, n, _ = x.shape
        contexto = self.norm_kv(contexto)
        q = self.a_q(self.norm_q(x))
        k, v = self.a_kv(contexto).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.cabezas, -1)).permute(0, 2, 1, 3) for t in (q, k, v))
        sim = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
        if valido is not None:
            sim = sim.masked_fill(~valido[:, None, None, :], -torch.finfo(sim.dtype).max)
        pesos = sim.softmax(dim=-1)
        y = torch.einsum("bhij,bhjd->bhid", pesos, v)
        return self.salida(y.permute(0, 2, 1, 3).reshape(b, n, -1))


class EcgPerceiver(nn.Module):
    def __init__(self, canales=3, dim=24, latentes=6, capas=2, clases=5):
        super().__init__()
        self.entrada = nn.Linear(canales + 2, 20)
        self.latentes = nn.Parameter(torch.randn(latentes, dim) * 0.5)
        self.lectura = Atencion(dim, 20)
        self.mezcla = nn.ModuleList(Atencion(dim, dim) for _ in range(capas))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(capas)
        )
        self.cabeza = nn.Linear(dim, clases)

    def forward(self, ecg, signal_ok=None):
        # ecg: (lote, muestras, canales)
        b, n, _ = ecg.shape
        t = torch.linspace(0, 1, n, device=ecg.device, dtype=ecg.dtype)
        reloj = torch.stack([torch.sin(6.2832 * t), torch.cos(6.2832 * t)], -1).expand(b, n, 2)
        datos = self.entrada(torch.cat([ecg, reloj], -1))
        lat = self.latentes.unsqueeze(0).expand(b, -1, -1)
        lat = lat + self.lectura(lat, datos, signal_ok)
        for att, mlp in zip(self.mezcla, self.mlps):
            lat = lat + att(lat, lat)
            lat = lat + mlp(lat)
        return self.cabeza(lat.mean(1))
