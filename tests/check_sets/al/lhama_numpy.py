"""Inferência do Llama 2/3 só com NumPy (pesos num dicionário, nomes da Meta).

Os pesos estão no formato original da Meta: wq/wk já na ordem intercalada (pares 2i, 2i+1),
`n_kv_heads` cabeças de chave/valor, cada uma servindo um grupo de cabeças vizinhas de consulta.
"""
import numpy as np


def rmsnorm(x, peso, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * peso


def silu(x):
    return x / (1 + np.exp(-x))


def tabela_rotacao(dim, maximo, base=10000.0):
    inv = base ** (-np.arange(0, dim, 2) / dim)
    ang = np.outer(np.arange(maximo), inv)
    return np.cos(ang), np.sin(ang)


def gira(x, cos, sin):
    """x [n, cabecas, d]; cos, sin [n, d/2]."""
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = cos[:, None, :], sin[:, None, :]
    y = np.empty_like(x)
    y[..., 0::2] = a * c - b * s
    y[..., 1::2] = a * s + b * c
    return y


class Memoria:
    def __init__(self):
        self.k = None
        self.v = None

    @property
    def tamanho(self):
        return 0 if self.k is None else len(self.k)

    def junta(self, k, v):
        self.k = k if self.k is None else np.concatenate([self.k, k])
        self.v = v if self.v is None else np.concatenate([self.v, v])
        return self.k, self.v


class Atencao:
    def __init__(self, w, prefixo, n_heads, n_kv_heads, maximo=2048):
        self.w, self.p = w, prefixo
        self.h, self.hkv = n_heads, n_kv_heads
        self.d = w[prefixo + "wq.weight"].shape[0] // n_heads
        self.cos, self.sin = tabela_rotacao(self.d, maximo)

    def __call__(self, x, mem):
        """x [n, dim]: os n tokens novos, que vêm depois dos que estão na memória."""
        n = len(x)
        q = (x @ self.w[self.p + "wq.weight"].T).reshape(n, self.h, self.d)
        k = (x @ self.w[self.p + "wk.weight"].T).reshape(n, self.hkv, self.d)
        v = (x @ self.w[self.p + "wv.weight"].T).reshape(n, self.hkv, self.d)
        q = gira(q, self.cos[:n], self.sin[:n])
        k = gira(k, self.cos[:n], self.sin[:n])
        antes = mem.tamanho
        k, v = mem.junta(k, v)
        grupo = self.h // self.hkv
        k = np.tile(k, (1, grupo, 1))
        v = np.tile(v, (1, grupo, 1))
        pontos = np.einsum("nhd,mhd->hnm", q, k) / np.sqrt(self.d)
        futuro = np.arange(len(k))[None, :] > antes + np.arange(n)[:, None]
        pontos = np.where(futuro[None], -np.inf, pontos)
        pontos -= pontos.max(-1, keepdims=True)
        p = np.exp(pontos)
        p /= p.sum(-1, keepdims=True)
        y = np.einsum("hnm,mhd->nhd", p, v).reshape(n, -1)
        return y @ self.w[self.p + "wo.weight"].T


class Camada:
    def __init__(self, w, i, n_heads, n_kv_heads):
        self.w, self.p = w, f"layers.{i}."
        self.atencao = Atencao(w, self.p + "attention.", n_heads, n_kv_heads)

    def __call__(self, x, mem):
        w, p = self.w, self.p
        x = x + self.atencao(rmsnorm(x, w[p + "attention_norm.weight"]), mem)
        h = rmsnorm(x, w[p + "ffn_norm.weight"])
        porta = silu(h @ w[p + "feed_forward.w1.weight"].T) * (h @ w[p + "feed_forward.w3.weight"].T)
        return x + porta @ w[p + "feed_forward.w2.weight"].T
