"""
matricula_elo -- liga cláusulas de escrituras antigas às matrículas do registro de imóveis.

Cada cláusula ("um terreno com doze braças de frente...") consulta as confrontações
candidatas. Convenção deste repositório, igual à do nn.MultiheadAttention:
    ignorar == True   -> a posição NÃO é lida
"""
import torch
import torch.nn as nn


class Cabecas:
    """Separa e junta cabeças; só mexe em formato."""

    def __init__(self, n):
        self.n = n

    def separa(self, t):
        b, l, d = t.shape
        return t.reshape(b, l, self.n, d // self.n).permute(0, 2, 1, 3)

    def junta(self, t):
        b, h, l, d = t.shape
        return t.permute(0, 2, 1, 3).reshape(b, l, h * d)


class SoftmaxSeguro(nn.Module):
    """Softmax com máscara; linha sem nenhum candidato devolve zeros, não NaN."""

    def forward(self, s, ignorar):
        s = s.float().masked_fill(ignorar, float("-inf"))
        topo = s.amax(-1, keepdim=True)
        topo = torch.where(torch.isfinite(topo), topo, torch.zeros_like(topo))
        e = torch.exp(s - topo)
        return e / e.sum(-1, keepdim=True).clamp_min(1e-30)


class Confronto(nn.Module):
    """Atenção cruzada cláusula -> confrontação.

    clausulas      [B, C, dim]
    confrontacoes  [B, M, dim_reg]
    ignorar        [B, M] bool, True = preenchimento (ver topo do arquivo)
    Devolve (contexto [B, C, dim], pesos médios das cabeças [B, C, M]).
    """

    def __init__(self, dim, dim_reg, n_cabecas=3):
        super().__init__()
        self.cab = Cabecas(n_cabecas)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim_reg, dim)
        self.v = nn.Linear(dim_reg, dim)
        self.saida = nn.Linear(dim, dim, bias=False)
        self.escala = (dim // n_cabecas) ** 0.5
        self.suave = SoftmaxSeguro()

    def forward(self, clausulas, confrontacoes, ignorar):
        q = self.cab.separa(self.q(clausulas))
        k = self.cab.separa(self.k(confrontacoes))
        v = self.cab.separa(self.v(confrontacoes))
        s = q.matmul(k.transpose(-2, -1)).div(self.escala)
        p = self.suave(s, ignorar.view(ignorar.size(0), 1, 1, -1))
        ctx = self.cab.junta(p.to(v.dtype).matmul(v))
        return self.saida(ctx), p.mean(1)


class EloMatricula(nn.Module):
    def __init__(self, vocab=500, dim=24, dim_reg=15):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.confronto = Confronto(dim, dim_reg)
        self.decide = nn.Bilinear(dim, dim_reg, 1)

    def forward(self, palavras, confrontacoes, ignorar):
        """palavras [B, C, P] índices -> nota de cada matrícula [B, M]."""
        b, c, p = palavras.shape
        x = self.emb(palavras.view(b * c, p)).view(b, c, -1)
        ctx, _ = self.confronto(x, confrontacoes, ignorar)
        resumo = ctx.mean(1, keepdim=True).expand(-1, confrontacoes.size(1), -1)
        nota = self.decide(resumo.contiguous(), confrontacoes).squeeze(-1)
        return nota.masked_fill(ignorar, float("-inf"))


def main():
    torch.manual_seed(0)
    m = EloMatricula()
    ign = torch.tensor([[False, False, True, True], [False, False, False, True]])
    print(m(torch.randint(0, 500, (2, 5, 7)), torch.randn(2, 4, 15), ign))


if __name__ == "__main__":
    main()
