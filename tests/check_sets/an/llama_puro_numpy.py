"""llama em numpy puro: uma sequencia por vez, cache de chaves e valores, GQA.

Os pesos vem em um dicionario com os nomes do checkpoint HF (matrizes [saida, entrada]),
ou seja, RoPE no formato "metade/metade" (rotate_half).
"""
import numpy as np


class Config(dict):
    __getattr__ = dict.__getitem__


def rmsnorm(x, g, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * g


def silu(x):
    return x / (1.0 + np.exp(-x))


def gira(x, pos, base):
    """x: (T, cabecas, d); pos: (T,) posicoes absolutas"""
    d = x.shape[-1]
    freq = base ** (-np.arange(0, d, 2) / d)
    ang = pos[:, None] * freq[None]
    c, s = np.cos(ang)[:, None, :], np.sin(ang)[:, None, :]
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], axis=-1)


class CamadaAtencao:
    def __init__(self, pesos, i, cfg):
        p = f"model.layers.{i}.self_attn."
        self.wq, self.wk, self.wv, self.wo = (pesos[p + n + "_proj.weight"] for n in "qkvo")
        self.cfg = cfg
        self.esquece()

    def esquece(self):
        hd = self.cfg.dim // self.cfg.n_heads
        self.k = np.zeros((0, self.cfg.n_kv_heads, hd))
        self.v = np.zeros((0, self.cfg.n_kv_heads, hd))

    def __call__(self, x):
        """x: (T, dim) tokens novos; os antigos ja estao no cache. Causal."""
        cfg = self.cfg
        T, hd = x.shape[0], cfg.dim // cfg.n_heads
        passado = self.k.shape[0]
        pos = np.arange(passado, passado + T)
        q = gira((x @ self.wq.T).reshape(T, cfg.n_heads, hd), pos, cfg.rope_theta)
        k = gira((x @ self.wk.T).reshape(T, cfg.n_kv_heads, hd), pos, cfg.rope_theta)
        v = (x @ self.wv.T).reshape(T, cfg.n_kv_heads, hd)
        self.k = np.concatenate([self.k, k])
        self.v = np.concatenate([self.v, v])

        rep = cfg.n_heads // cfg.n_kv_heads
        K = np.repeat(self.k, rep, axis=1)
        V = np.repeat(self.v, rep, axis=1)
        s = np.einsum("qhd,khd->hqk", q, K) / np.sqrt(hd)
        futuro = np.arange(K.shape[0])[None, :] > pos[:, None]
        s[:, futuro] = -np.inf
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        y = np.einsum("hqk,khd->qhd", s, V).reshape(T, cfg.dim)
        return y @ self.wo.T


class Llama:
    def __init__(self, pesos, cfg):
        self.w, self.cfg = pesos, cfg
        self.att = [CamadaAtencao(pesos, i, cfg) for i in range(cfg.n_layers)]

    def __call__(self, ids):
        w, eps = self.w, self.cfg.norm_eps
        x = w["model.embed_tokens.weight"][ids]
        for i, a in enumerate(self.att):
            p = f"model.layers.{i}."
            x = x + a(rmsnorm(x, w[p + "input_layernorm.weight"], eps))
            h = rmsnorm(x, w[p + "post_attention_layernorm.weight"], eps)
            g = silu(h @ w[p + "mlp.gate_proj.weight"].T) * (h @ w[p + "mlp.up_proj.weight"].T)
            x = x + g @ w[p + "mlp.down_proj.weight"].T
        return rmsnorm(x, w["model.norm.weight"], eps) @ w["lm_head.weight"].T
