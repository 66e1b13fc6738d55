#!/usr/bin/env python3
# A transformer layer with nothing but the standard library, for a talk at the
# user group.  Slow; readable.  Vectors are lists of floats.
#
# Conventions (those of the llama2.c checkpoints):
#   * weights are row-major: w[out][in]
#   * rotary embedding turns neighbours (0,1), (2,3), ... of every head
#   * kv heads are shared by consecutive query heads
#   * one token per call; the cache grows
import math
import random


def matvec(w, x):
    return [sum(a * b for a, b in zip(row, x)) for row in w]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def rmsnorm(x, g):
    r = 1.0 / math.sqrt(dot(x, x) / len(x) + 1e-5)
    return [v * r * w for v, w in zip(x, g)]


def softmax(xs):
    m = max(xs)
    es = [math.exp(x - m) for x in xs]
    t = sum(es)
    return [e / t for e in es]


def rotate(vec, pos, hd):
    out = vec[:]
    for i in range(0, len(vec), 2):
        theta = pos / 10000.0 ** ((i % hd) / hd)
        c, s = math.cos(theta), math.sin(theta)
        a, b = vec[i], vec[i + 1]
        out[i] = a * c - b * s
        out[i + 1] = a * s + b * c
    return out


class HeadBank:
    """The attention of one layer, with its cache."""

    def __init__(self, wq, wk, wv, wo, n_heads, n_kv):
        self.wq, self.wk, self.wv, self.wo = wq, wk, wv, wo
        self.n_heads, self.n_kv = n_heads, n_kv
        self.hd = len(wq) // n_heads
        self.ks, self.vs = [], []

    def forget(self):
        self.ks.clear()
        self.vs.clear()

    def __call__(self, x):
        pos, hd = len(self.ks), self.hd
        q = rotate(matvec(self.wq, x), pos, hd)
        self.ks.append(rotate(matvec(self.wk, x), pos, hd))
        self.vs.append(matvec(self.wv, x))
        share = self.n_heads // self.n_kv
        mixed = []
        for h in range(self.n_heads):
            lo = (h // share) * hd
            qh = q[h * hd:(h + 1) * hd]
            p = softmax([dot(qh, k[lo:lo + hd]) / math.sqrt(hd) for k in self.ks])
            mixed += [sum(pt * v[lo + j] for pt, v in zip(p, self.vs)) for j in range(hd)]
        return matvec(self.wo, mixed)


class Layer:
    def __init__(self, rng, dim=16, n_heads=4, n_kv=2, hidden=24):
        mat = lambda o, i: [[rng.gauss(0, i ** -0.5) for _ in range(i)] for _ in range(o)]
        kv = dim // n_heads * n_kv
        self.att = HeadBank(mat(dim, dim), mat(kv, dim), mat(kv, dim), mat(dim, dim), n_heads, n_kv)
        self.w1, self.w3, self.w2 = mat(hidden, dim), mat(hidden, dim), mat(dim, hidden)
        self.g1, self.g2 = [1.0] * dim, [1.0] * dim

    def __call__(self, x):
        x = [a + b for a, b in zip(x, self.att(rmsnorm(x, self.g1)))]
        y = rmsnorm(x, self.g2)
        gate = [u / (1 + math.exp(-u)) * w for u, w in zip(matvec(self.w1, y), matvec(self.w3, y))]
        return [a + b for a, b in zip(x, matvec(self.w2, gate))]


def generate(layers, emb, prompt, n):
    out, tok = list(prompt), None
    for i in range(len(prompt) + n - 1):
        x = emb[out[i]]
        for layer in layers:
            x = layer(x)
        if i + 1 >= len(prompt):
            scores = [dot(x, e) for e in emb]
            out.append(scores.index(max(scores)))
    return out


if __name__ == "__main__":
    rng = random.Random(7)
    emb = [[rng.gauss(0, 1) for _ in range(16)] for _ in range(27)]
    print(generate([Layer(rng) for _ in range(2)], emb, [3, 1, 4], 8))
