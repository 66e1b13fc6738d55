"""
Previsão da maré no porto de Itaqui — camada de atenção agrupada (GQA).

- RoPE intercalado (pares 2i, 2i+1), como no GPT-J
- cache incremental: uma nova leitura do marégrafo por chamada
"""
import torch
from torch import nn
import torch.nn.functional as F


def tabela_rope(maximo, d, base=10000.0):
    inv = 1.0 / base ** (torch.arange(0, d, 2).float() / d)
    ang = torch.arange(maximo).float()[:, None] * inv[None]
    return torch.polar(torch.ones_like(ang), ang)      # complexo [maximo, d/2]


def girar(x, fases):
    # x [B, L, H, d]
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(z * fases[None, :, None]).flatten(-2).type_as(x)


class AtencaoMare(nn.Module):
    """Autoatenção causal.

    `usar_cache=True` acrescenta as chaves e valores novos ao que já foi visto;
    `limpar()` recomeça outra série.
    """

    MAXIMO = 512

    def __init__(self, largura=48, n_q=6, n_kv=2, janela=None):
        super().__init__()
        assert n_q % n_kv == 0
        self.n_q, self.n_kv, self.d = n_q, n_kv, largura // n_q
        self.q = nn.Linear(largura, n_q * self.d, bias=False)
        self.kv = nn.Linear(largura, 2 * n_kv * self.d, bias=False)
        self.o = nn.Linear(n_q * self.d, largura, bias=False)
        self.register_buffer("fases", tabela_rope(self.MAXIMO, self.d), persistent=False)
        self.limpar()

    def limpar(self):
        self._k = self._v = None

    def forward(self, x, usar_cache=False):
        B, L, _ = x.shape
        ja = self._k.shape[1] if (usar_cache and self._k is not None) else 0
        q = self.q(x).view(B, L, self.n_q, self.d)
        k, v = self.kv(x).view(B, L, 2, self.n_kv, self.d).unbind(2)
        f = self.fases[ja:ja + L]
        q, k = girar(q, f), girar(k, f)
        if usar_cache:
            if ja:
                k = torch.cat((self._k, k), 1)
                v = torch.cat((self._v, v), 1)
            self._k, self._v = k, v
        S = k.shape[1]
        # cabeça h usa o grupo h // (n_q / n_kv)
        q = q.view(B, L, self.n_kv, self.n_q // self.n_kv, self.d)
        p = torch.einsum("blgrd,bsgd->bgrls", q, k) * self.d ** -0.5
        pos_q = torch.arange(ja, ja + L, device=x.device)
        pos_k = torch.arange(S, device=x.device)
        p = p.masked_fill(pos_k[None] > pos_q[:, None], -torch.inf)
        a = F.softmax(p, dim=-1, dtype=torch.float32).to(v.dtype)
        y = torch.einsum("bgrls,bsgd->blgrd", a, v)
        return self.o(y.reshape(B, L, -1))


@torch.no_grad()
def simular(camada, historico, passos):
    """Alimenta o histórico e depois devolve `passos` saídas encadeadas."""
    camada.limpar()
    y = camada(historico, usar_cache=True)[:, -1:]
    saidas = []
    for _ in range(passos):
        y = camada(y, usar_cache=True)
        saidas.append(y)
    return torch.cat(saidas, 1)
