# -*- coding: utf-8 -*-
"""Similaridade de frases com um codificador pequeno em NumPy (trabalho final de PLN).

Pesos treinados no Colab e guardados em pesos.npz; aqui somente inferencia.
"""
import numpy as np


def tokenizar(frases, vocab):
    """lista de frases -> (ids [B, L], mascara [B, L]) ; mascara 1 = palavra, 0 = enchimento"""
    seqs = [[vocab.get(p, 1) for p in f.lower().split()] for f in frases]
    L = max(len(s) for s in seqs)
    ids = np.zeros((len(seqs), L), dtype=int)
    mascara = np.zeros((len(seqs), L))
    for i, s in enumerate(seqs):
        ids[i, :len(s)] = s
        mascara[i, :len(s)] = 1
    return ids, mascara


def softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    z = np.exp(z)
    return z / np.sum(z, axis=-1, keepdims=True)


def atencao_mascarada(q, k, v, mascara):
    """
    q, k, v: [B, H, L, d]
    mascara: [B, L]; as palavras com 0 nao podem receber atencao
    """
    d = q.shape[-1]
    notas = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(d)
    notas = notas * mascara[:, None, None, :]
    pesos = softmax(notas)
    return np.matmul(pesos, v), pesos


def codificador(ids, mascara, P, cabecas=4):
    B, L = ids.shape
    x = P['emb'][ids] + P['pos'][:L]
    for c in P['camadas']:
        def abrir(w):
            return (x @ w).reshape(B, L, cabecas, -1).transpose(0, 2, 1, 3)
        o, _ = atencao_mascarada(abrir(c['wq']), abrir(c['wk']), abrir(c['wv']), mascara)
        o = o.transpose(0, 2, 1, 3).reshape(B, L, -1) @ c['wo']
        x = norma(x + o, c['g1'], c['b1'])
        h = np.maximum(x @ c['w1'] + c['c1'], 0) @ c['w2'] + c['c2']
        x = norma(x + h, c['g2'], c['b2'])
    return x


def norma(x, g, b):
    m = x.mean(-1, keepdims=True)
    s = x.std(-1, keepdims=True)
    return (x - m) / (s + 1e-6) * g + b


def vetor_da_frase(x, mascara):
    soma = (x * mascara[..., None]).sum(1)
    return soma / mascara.sum(1, keepdims=True)


def similaridade(frases_a, frases_b, vocab, P):
    va = vetor_da_frase(codificador(*tokenizar(frases_a, vocab), P), tokenizar(frases_a, vocab)[1])
    vb = vetor_da_frase(codificador(*tokenizar(frases_b, vocab), P), tokenizar(frases_b, vocab)[1])
    num = (va * vb).sum(1)
    return num / (np.linalg.norm(va, axis=1) * np.linalg.norm(vb, axis=1) + 1e-9)
