"""
Decodificador GRU com atenção aditiva (Bahdanau et al., 2015), só inferência.

Usado no trabalho de conclusão de curso para desenhar os mapas de alinhamento
entre português e guarani.  Tudo em float32/float64, o que vier nos pesos.
"""
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Configuracao:
    dim_estado: int = 32
    dim_fonte: int = 48
    dim_alinhamento: int = 24
    vocabulario: int = 100
    semente: int = 1


def sigmoide(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


class AtencaoAditiva:
    """e_ij = v . tanh(W s_i + U h_j + b);  alfa_i = softmax_j(e_ij);  c_i = soma_j alfa_ij h_j"""

    def __init__(self, W, U, b, v):
        self.W, self.U, self.b, self.v = W, U, b, v

    def chaves(self, h):
        # depende só da fonte, por isso é calculado uma vez por frase
        return h @ self.U

    def __call__(self, s, h, tamanhos, Uh=None):
        """s [lote, Tq, ds]; h [lote, Tk, dh]; tamanhos [lote] -> (c, alfa)"""
        if Uh is None:
            Uh = self.chaves(h)
        Ws = s @ self.W
        soma = Ws[:, :, None, :] + Uh[:, None, :, :] + self.b      # [lote, Tq, Tk, da]
        e = np.tanh(soma) @ self.v                                 # [lote, Tq, Tk]
        existe = np.arange(h.shape[1]) < np.asarray(tamanhos)[:, None]
        existe = existe[:, None, :]
        e = np.where(existe, e, -np.inf)
        topo = np.max(e, axis=2, keepdims=True)
        topo = np.where(np.isfinite(topo), topo, 0.0)              # frase vazia
        p = np.exp(e - topo)
        total = p.sum(axis=2, keepdims=True)
        alfa = p / np.where(total == 0, 1.0, total)
        return np.einsum("bqk,bkd->bqd", alfa, h), alfa


class CelulaGRU:
    def __init__(self, Wx, Wh, b):
        self.Wx, self.Wh, self.b = Wx, Wh, b

    def passo(self, x, h):
        n = h.shape[-1]
        gx = x @ self.Wx + self.b
        gh = h @ self.Wh
        r = sigmoide(gx[:, :n] + gh[:, :n])
        z = sigmoide(gx[:, n:2 * n] + gh[:, n:2 * n])
        novo = np.tanh(gx[:, 2 * n:] + r * gh[:, 2 * n:])
        return (1 - z) * novo + z * h


@dataclass
class Decodificador:
    cfg: Configuracao
    pesos: dict = field(default_factory=dict)

    def __post_init__(self):
        if not self.pesos:
            self.pesos = pesos_aleatorios(self.cfg)
        p = self.pesos
        self.atencao = AtencaoAditiva(p["att.W"], p["att.U"], p["att.b"], p["att.v"])
        self.gru = CelulaGRU(p["gru.Wx"], p["gru.Wh"], p["gru.b"])

    def traduzir(self, h, tamanhos, inicio=1, passos=10):
        lote = h.shape[0]
        s = np.tanh(h[:, 0] @ self.pesos["ini"])
        y = np.full(lote, inicio)
        Uh = self.atencao.chaves(h)
        saida, mapa = [], []
        for _ in range(passos):
            c, alfa = self.atencao(s[:, None], h, tamanhos, Uh)
            x = np.concatenate([self.pesos["emb"][y], c[:, 0]], axis=-1)
            s = self.gru.passo(x, s)
            y = (s @ self.pesos["saida"]).argmax(-1)
            saida.append(y)
            mapa.append(alfa[:, 0])
        return np.stack(saida, 1), np.stack(mapa, 1)


def pesos_aleatorios(cfg):
    g = np.random.default_rng(cfg.semente)

    def n(*forma):
        return g.normal(0, forma[0] ** -0.5, forma)

    ds, dh, da = cfg.dim_estado, cfg.dim_fonte, cfg.dim_alinhamento
    return {
        "att.W": n(ds, da), "att.U": n(dh, da), "att.b": np.zeros(da), "att.v": n(da),
        "gru.Wx": n(ds + dh, 3 * ds), "gru.Wh": n(ds, 3 * ds), "gru.b": np.zeros(3 * ds),
        "ini": n(dh, ds), "emb": n(cfg.vocabulario, ds), "saida": n(ds, cfg.vocabulario),
    }


if __name__ == "__main__":
    dec = Decodificador(Configuracao())
    fonte = np.random.default_rng(0).normal(size=(2, 7, 48))
    palavras, mapa = dec.traduzir(fonte, [7, 4])
    print(palavras)
    print(mapa.sum(-1).round(6))
