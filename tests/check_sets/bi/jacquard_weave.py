"""jacquard_weave: Kettfäden lesen Schussfäden (reine NumPy-Fassung für den Webstuhl-PC).

warp   (B, P, C)  Kettfäden je Muster
weft   (B, S, C)  Schussfäden je Muster
-> (B, P, C)

Skaliertes Skalarprodukt, h Köpfe; Köpfe werden vorn an die Mustergruppe gefaltet,
damit nur 3-D-Matrizen vorkommen (der alte BLAS-Wrapper kann nichts anderes).
"""
import numpy as np


def fold(x, h):
    B, L, C = x.shape
    return x.reshape(B, L, h, C // h).transpose(0, 2, 1, 3).reshape(B * h, L, C // h)


def unfold(x, h):
    G, L, d = x.shape
    return x.reshape(h, G // h, L, d).transpose(1, 2, 0, 3).reshape(G // h, L, h * d)


def rowsoftmax(s):
    s = s - np.max(s, axis=2, keepdims=True)
    np.exp(s, out=s)
    s /= np.sum(s, axis=2, keepdims=True)
    return s


def weave(warp, weft, W, h):
    """Kreuzlesen mit den Gewichten W = dict(q, k, v, o), jedes (C, C)."""
    q = fold(warp @ W["q"], h)
    k = fold(weft @ W["k"], h)
    v = fold(weft @ W["v"], h)
    s = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(h)
    return unfold(np.matmul(rowsoftmax(s), v), h) @ W["o"]


def lift_plan(y, hooks):
    """Welche Platinen heben: die `hooks` größten je Schuss."""
    order = np.argsort(-y, axis=-1)[..., :hooks]
    plan = np.zeros(y.shape, dtype=bool)
    np.put_along_axis(plan, order, True, axis=-1)
    return plan


def show(plan):
    return "\n".join("".join("#" if c else "." for c in row) for row in plan)


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    C = 24
    W = {n: rng.normal(size=(C, C)) / C ** 0.5 for n in "qkvo"}
    y = weave(rng.normal(size=(3, 8, C)), rng.normal(size=(3, 11, C)), W, h=4)
    print(show(lift_plan(y[0], hooks=9)))
