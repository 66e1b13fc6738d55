"""Reconhecimento de texto manuscrito: colunas da imagem -> letras.

Dissertação, capítulo 3. Atenção aditiva como em Bahdanau et al. (2015).
"""
import torch
import torch.nn as nn


class Foco(nn.Module):
    """Pesos sobre as colunas da imagem, dependem do estado do decodificador.

    estado (B, E), colunas (B, T, C) -> contexto (B, C), pesos (B, T)
    """

    def __init__(self, dim_estado, dim_coluna, dim_foco):
        super().__init__()
        self.do_estado = nn.Linear(dim_estado, dim_foco)
        self.da_coluna = nn.Linear(dim_coluna, dim_foco, bias=False)
        self.nota = nn.Linear(dim_foco, 1, bias=False)

    def forward(self, estado, colunas):
        soma = self.do_estado(estado).unsqueeze(1) + self.da_coluna(colunas)
        notas = self.nota(soma).squeeze(-1)
        pesos = torch.softmax(notas, dim=-1)
        contexto = (pesos.unsqueeze(-1) * colunas).sum(dim=1)
        return contexto, pesos


class Leitor(nn.Module):
    def __init__(self, letras=30, canais=16, estado=24, foco=20):
        super().__init__()
        self.olho = nn.Sequential(
            nn.Conv2d(1, canais, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(canais, canais, 3, padding=1), nn.ReLU(),
        )
        self.letra = nn.Embedding(letras, estado)
        self.foco = Foco(estado, canais, foco)
        self.gru = nn.GRUCell(estado + canais, estado)
        self.inicio = nn.Linear(canais, estado)
        self.saida = nn.Linear(estado + canais, letras)

    def forward(self, imagem, letras):
        """imagem (B, 1, H, W), letras (B, S) (teacher forcing).

        Devolve logits (B, S, letras) e o alinhamento (B, S, W // 2)."""
        colunas = self.olho(imagem).mean(dim=2).transpose(1, 2)
        h = torch.tanh(self.inicio(colunas.mean(dim=1)))
        logits, mapa = [], []
        for passo in range(letras.size(1)):
            contexto, pesos = self.foco(h, colunas)
            h = self.gru(torch.cat([self.letra(letras[:, passo]), contexto], dim=-1), h)
            logits.append(self.saida(torch.cat([h, contexto], dim=-1)))
            mapa.append(pesos)
        return torch.stack(logits, dim=1), torch.stack(mapa, dim=1)
