"""Flüster: kleiner Whisper-Encoder ohne torch. Gewichte kommen als dict aus dem Originalmodell.

Umgesetzt ist die skalierte Punktprodukt-Attention des Originals (1/sqrt(Kopfgröße) auf q·k).
"""
import numpy as np


def schicht_norm(x, g, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * g + b


def gelu(x):
    # Näherung reicht, Abweichung < 1e-3
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def sinusoide(laenge, kanaele, max_zeit=10000.0):
    schritt = np.log(max_zeit) / (kanaele // 2 - 1)
    inv = np.exp(-schritt * np.arange(kanaele // 2))
    t = np.arange(laenge)[:, None] * inv[None, :]
    return np.concatenate([np.sin(t), np.cos(t)], axis=1)


def faltung1d(x, w, b, schrittweite=1):
    """x (T, C_ein), w (C_aus, C_ein, 3), Polsterung 1"""
    xp = np.pad(x, ((1, 1), (0, 0)))
    n = (len(x) - 1) // schrittweite + 1
    aus = np.empty((n, w.shape[0]))
    for i in range(n):
        j = i * schrittweite
        aus[i] = np.einsum("kc,ock->o", xp[j:j + 3], w) + b
    return aus


class MehrkopfAufmerksamkeit:
    """query/key/value/out mit (aus, ein)-Matrizen; key hat wie bei Whisper keinen Bias."""

    def __init__(self, gewichte, praefix, koepfe):
        self.g = gewichte
        self.p = praefix
        self.koepfe = koepfe

    def _lin(self, x, name):
        y = x @ self.g[f"{self.p}.{name}.weight"].T
        bias = self.g.get(f"{self.p}.{name}.bias")
        return y if bias is None else y + bias

    def __call__(self, x, xa=None):
        quelle = x if xa is None else xa
        q = self._lin(x, "query")
        k = self._lin(quelle, "key")
        v = self._lin(quelle, "value")
        return self._lin(self.qkv(q, k, v), "out")

    def qkv(self, q, k, v):
        t, n = q.shape
        d = n // self.koepfe
        faktor = d ** -0.5
        q = q.reshape(t, self.koepfe, d).transpose(1, 0, 2) * faktor
        k = k.reshape(-1, self.koepfe, d).transpose(1, 2, 0) * faktor
        v = v.reshape(-1, self.koepfe, d).transpose(1, 0, 2)
        s = q @ k
        s = s - s.max(axis=-1, keepdims=True)
        w = np.exp(s)
        w = w / w.sum(axis=-1, keepdims=True)
        return (w @ v).transpose(1, 0, 2).reshape(t, n)


def encoder_block(x, g, i, koepfe):
    p = f"encoder.blocks.{i}"
    a = MehrkopfAufmerksamkeit(g, p + ".attn", koepfe)
    x = x + a(schicht_norm(x, g[p + ".attn_ln.weight"], g[p + ".attn_ln.bias"]))
    h = schicht_norm(x, g[p + ".mlp_ln.weight"], g[p + ".mlp_ln.bias"])
    h = gelu(h @ g[p + ".mlp.0.weight"].T + g[p + ".mlp.0.bias"])
    return x + h @ g[p + ".mlp.2.weight"].T + g[p + ".mlp.2.bias"]


def encoder(mel, g, koepfe, ebenen):
    x = gelu(faltung1d(mel, g["encoder.conv1.weight"], g["encoder.conv1.bias"]))
    x = gelu(faltung1d(x, g["encoder.conv2.weight"], g["encoder.conv2.bias"], 2))
    x = x + sinusoide(*x.shape)
    for i in range(ebenen):
        x = encoder_block(x, g, i, koepfe)
    return schicht_norm(x, g["encoder.ln_post.weight"], g["encoder.ln_post.bias"])
