#!/usr/bin/env python
# coding: utf-8

# # Transformer Schritt für Schritt (Teil 2: Self-Attention)
#
# Wir rechnen das Beispiel "Das Haus am See" mit kleinen Zahlen durch.

# In[1]:

import numpy as np

np.set_printoptions(precision=3, suppress=True)


# ## Softmax
# Numerisch stabile Variante.

# In[2]:

def softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    ez = np.exp(z)
    return ez / np.sum(ez)


# ## Ein Kopf
# $\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V$, jede Zeile der Gewichte
# ist eine Verteilung über die Wörter.

# In[3]:

def self_attention(X, W_q, W_k, W_v):
    """X: (Wörter, d_modell). Gibt Kontextvektoren und Gewichte zurück."""
    Q = X @ W_q
    K = X @ W_k
    V = X @ W_v
    d_k = Q.shape[-1]
    S = Q @ K.T / np.sqrt(d_k)
    A = softmax(S)
    return A @ V, A


# ## Mehrere Köpfe

# In[4]:

class MultiHead:
    def __init__(self, d_modell, koepfe, seed=42):
        rng = np.random.default_rng(seed)
        d_k = d_modell // koepfe
        self.W = [tuple(rng.normal(0, 1 / np.sqrt(d_modell), (d_modell, d_k)) for _ in range(3))
                  for _ in range(koepfe)]
        self.W_o = rng.normal(0, 1 / np.sqrt(d_modell), (d_modell, d_modell))

    def __call__(self, X):
        teile, gewichte = zip(*[self_attention(X, *w) for w in self.W])
        return np.concatenate(teile, axis=-1) @ self.W_o, np.stack(gewichte)


# ## Positionen

# In[5]:

def positionen(n, d):
    p = np.arange(n)[:, None]
    i = np.arange(0, d, 2)[None, :]
    w = p / 10000 ** (i / d)
    out = np.zeros((n, d))
    out[:, 0::2], out[:, 1::2] = np.sin(w), np.cos(w)
    return out


# In[6]:

def demo():
    woerter = ["Das", "Haus", "am", "See"]
    rng = np.random.default_rng(0)
    E = rng.normal(size=(len(woerter), 8))
    Y, A = MultiHead(8, 2)(E + positionen(4, 8))
    for w, zeile in zip(woerter, A[0]):
        print(f"{w:>5}", zeile)
    return Y


# In[7]:

if __name__ == "__main__":
    demo()
