"""Previsão de geada a partir de estações meteorológicas (TCC, Eng. de Computação).

Estilo Perceiver: um vetor latente pequeno lê (atenção cruzada) as observações de
todas as estações e depois é processado por autoatenção. Estações sem dado naquele
dia vêm marcadas em `faltando` (True = ignorar), como pede o nn.MultiheadAttention.
"""
import torch
import torch.nn as nn


class BlocoLatente(nn.Module):
    """Uma leitura cruzada + uma autoatenção + MLP, tudo com pré-normalização."""

    def __init__(self, dim, dim_obs, cabecas, dropout=0.0):
        super().__init__()
        self.norma_l = nn.LayerNorm(dim)
        self.norma_o = nn.LayerNorm(dim_obs)
        self.leitura = nn.MultiheadAttention(
            dim, cabecas, dropout=dropout, kdim=dim_obs, vdim=dim_obs, batch_first=True)
        self.norma_s = nn.LayerNorm(dim)
        self.auto = nn.MultiheadAttention(dim, cabecas, dropout=dropout, batch_first=True)
        self.norma_m = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, latente, obs, faltando=None):
        # latente: (lote, n_lat, dim)   obs: (lote, n_est, dim_obs)   faltando: (lote, n_est)
        o = self.norma_o(obs)
        lido, pesos = self.leitura(self.norma_l(latente), o, o,
                                   key_padding_mask=faltando, average_attn_weights=True)
        latente = latente + lido
        s = self.norma_s(latente)
        latente = latente + self.auto(s, s, s, need_weights=False)[0]
        return latente + self.mlp(self.norma_m(latente)), pesos


class PrevisorDeGeada(nn.Module):
    def __init__(self, n_var, dim=32, n_latentes=4, cabecas=4, blocos=2, dim_pos=8):
        super().__init__()
        self.latente = nn.Parameter(torch.randn(n_latentes, dim) * 0.02)
        self.pos = nn.Linear(3, dim_pos)             # latitude, longitude, altitude (padronizadas)
        self.blocos = nn.ModuleList(
            [BlocoLatente(dim, n_var + dim_pos, cabecas) for _ in range(blocos)])
        self.saida = nn.Linear(dim, 1)

    def forward(self, medidas, coords, faltando=None):
        """medidas (lote, n_est, n_var), coords (lote, n_est, 3) -> logit (lote,), pesos por bloco."""
        obs = torch.cat([medidas, self.pos(coords)], dim=-1)
        z = self.latente.expand(obs.size(0), -1, -1)
        todos = []
        for bloco in self.blocos:
            z, pesos = bloco(z, obs, faltando)
            todos.append(pesos)
        return self.saida(z.mean(dim=1)).squeeze(-1), todos


if __name__ == "__main__":
    torch.manual_seed(42)
    modelo = PrevisorDeGeada(n_var=5).eval()
    faltando = torch.zeros(2, 9, dtype=torch.bool)
    faltando[0, 6:] = True
    logit, pesos = modelo(torch.randn(2, 9, 5), torch.randn(2, 9, 3), faltando)
    print("probabilidade de geada:", torch.sigmoid(logit).tolist())
    print("peso das estações faltando:", pesos[0][0, :, 6:].sum().item())
