"""Bloques codificador-decodificador sobre nn.MultiheadAttention.

EncDec(vocab_src, vocab_tgt, dim, heads, layers)
    forward(src, src_real, tgt)
        src       (B, S) índices
        src_real  (B, S) bool, True = palabra real, False = relleno; al menos
                  una palabra real por frase
        tgt       (B, T) índices, desplazados a la derecha (empiezan con <bos>)
        ->        (B, T, vocab_tgt) logits; los de la posición t dependen de
                  tgt[:, :t+1] y de las palabras reales de src, de nada más
El modelo genera palabra por palabra, así que el decodificador es
autorregresivo.  El relleno de src no se lee nunca.  Todo es batch_first.
"""
import torch
from torch import nn


class Bloque(nn.Module):
    """atención (propia o cruzada) + MLP, pre-norm"""

    def __init__(self, dim, heads, cruzada=False):
        super().__init__()
        self.n1 = nn.LayerNorm(dim)
        self.propia = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.cruzada = None
        if cruzada:
            self.n2 = nn.LayerNorm(dim)
            self.cruzada = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.n3 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, memoria=None, propia_pad=None, memoria_pad=None):
        h = self.n1(x)
        y, _ = self.propia(h, h, h, key_padding_mask=propia_pad, need_weights=False)
        x = x + y
        if self.cruzada is not None:
            y, _ = self.cruzada(self.n2(x), memoria, memoria,
                                key_padding_mask=memoria_pad, need_weights=False)
            x = x + y
        return x + self.mlp(self.n3(x))


class EncDec(nn.Module):
    def __init__(self, vocab_src, vocab_tgt, dim=64, heads=4, layers=2, max_len=128):
        super().__init__()
        self.emb_src = nn.Embedding(vocab_src, dim)
        self.emb_tgt = nn.Embedding(vocab_tgt, dim)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.1)
        self.enc = nn.ModuleList(Bloque(dim, heads) for _ in range(layers))
        self.dec = nn.ModuleList(Bloque(dim, heads, cruzada=True) for _ in range(layers))
        self.norma = nn.LayerNorm(dim)
        self.salida = nn.Linear(dim, vocab_tgt)

    def codificar(self, src, pad):
        x = self.emb_src(src) + self.pos[: src.size(1)]
        for capa in self.enc:
            x = capa(x, propia_pad=pad)
        return x

    def decodificar(self, tgt, memoria, pad):
        x = self.emb_tgt(tgt) + self.pos[: tgt.size(1)]
        for capa in self.dec:
            x = capa(x, memoria, memoria_pad=pad)
        return self.salida(self.norma(x))

    def forward(self, src, src_real, tgt):
        pad = src_real
        memoria = self.codificar(src, pad)
        return self.decodificar(tgt, memoria, pad)
