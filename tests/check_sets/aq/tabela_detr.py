"""Reconhecimento de estrutura de tabelas: decodificador no estilo DETR (linhas, colunas, células)."""
import torch
from torch import nn


def mascara_aditiva(tamanhos, h, w):
    """tamanhos [B, 2] (altura, largura úteis do mapa); [B, h*w] com 0 nas posições úteis e -inf no resto"""
    ys = torch.arange(h)[None, :, None] < tamanhos[:, 0, None, None]
    xs = torch.arange(w)[None, None, :] < tamanhos[:, 1, None, None]
    m = torch.zeros(tamanhos.shape[0], h, w)
    return m.masked_fill(~(ys & xs), float("-inf")).flatten(1)


class AtencaoCruzada(nn.Module):
    """consultas [B, Q, C], mapa [B, S, C], pos [B, S, C] (só nas chaves),
    mascara [B, S] aditiva: 0 = olhar, -inf = enchimento da página."""

    def __init__(self, c, cabecas):
        super().__init__()
        self.cabecas, self.d = cabecas, c // cabecas
        self.pq, self.pk, self.pv, self.po = (nn.Linear(c, c) for _ in range(4))

    def forward(self, consultas, mapa, pos, mascara):
        B, Q, C = consultas.shape
        S = mapa.shape[1]
        q = self.pq(consultas).reshape(B, Q, self.cabecas, self.d).transpose(1, 2)
        k = self.pk(mapa + pos).reshape(B, S, self.cabecas, self.d).transpose(1, 2)
        v = self.pv(mapa).reshape(B, S, self.cabecas, self.d).transpose(1, 2)
        ver = mascara.to(torch.bool)[:, None, None, :].expand(B, 1, Q, S)
        escore = q @ k.transpose(-1, -2) / self.d ** 0.5
        escore = torch.where(ver, escore, torch.finfo(escore.dtype).min)
        saida = escore.softmax(-1) @ v
        return self.po(saida.transpose(1, 2).reshape(B, Q, C))


class CamadaDecod(nn.Module):
    def __init__(self, c, cabecas):
        super().__init__()
        self.proprio = nn.MultiheadAttention(c, cabecas, batch_first=True)
        self.cruzada = AtencaoCruzada(c, cabecas)
        self.n = nn.ModuleList(nn.LayerNorm(c) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.ReLU(), nn.Linear(4 * c, c))

    def forward(self, x, qpos, mapa, pos, mascara):
        y = x + qpos
        x = self.n[0](x + self.proprio(y, y, x, need_weights=False)[0])
        x = self.n[1](x + self.cruzada(x + qpos, mapa, pos, mascara))
        return self.n[2](x + self.mlp(x))


class TabelaDETR(nn.Module):
    def __init__(self, c=64, cabecas=4, camadas=2, objetos=20, classes=6):
        super().__init__()
        self.consulta = nn.Embedding(objetos, c)
        self.camadas = nn.ModuleList(CamadaDecod(c, cabecas) for _ in range(camadas))
        self.classe, self.caixa = nn.Linear(c, classes + 1), nn.Linear(c, 4)

    def forward(self, mapa, pos, mascara):
        qpos = self.consulta.weight[None].expand(mapa.shape[0], -1, -1)
        x = torch.zeros_like(qpos)
        for cam in self.camadas:
            x = cam(x, qpos, mapa, pos, mascara)
        return self.classe(x), self.caixa(x).sigmoid()
