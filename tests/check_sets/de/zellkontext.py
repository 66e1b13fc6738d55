import numpy as np


def weiches_max(a):
    a = a - np.max(a, axis=-1, keepdims=True)
    e = np.exp(a)
    return e / np.sum(e, axis=-1, keepdims=True)


def gelu(z):
    return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z ** 3)))


def schichtnorm(z, eps=1e-5):
    m = z.mean(-1, keepdims=True)
    s = z.var(-1, keepdims=True)
    return (z - m) / np.sqrt(s + eps)


def zellblock(gene, gewichte, koepfe, gueltig):
    """Ein Encoderblock ueber die Gene einer Zelle (wie scGPT, nur von Hand).

    gene:     (B, G, D)  Genvektoren, D durch koepfe teilbar
    gewichte: dict mit 'q','k','v','o' (D, D), 'auf' (D, 4D), 'ab' (4D, D)
    gueltig:  (B, G) bool, False = Fuellgen
    Rueckgabe: (B, G, D)
    """
    B, G, D = gene.shape
    d = D // koepfe

    def teile(t):
        return t.reshape(B, G, koepfe, d).transpose(0, 2, 1, 3)

    z = schichtnorm(gene)
    fragen = teile(z @ gewichte["q"])
    schluessel = teile(z @ gewichte["k"])
    werte = teile(z @ gewichte["v"])

    punkte = fragen @ schluessel.swapaxes(-1, -2) * d ** -0.5
    sperre = ~gueltig[:, None, None, :]
    punkte = np.where(sperre, np.finfo(punkte.dtype).min, punkte)
    anteil = np.where(sperre, 0.0, weiches_max(punkte))

    misch = (anteil @ werte).transpose(0, 2, 1, 3).reshape(B, G, D)
    gene = gene + misch @ gewichte["o"]
    return gene + gelu(schichtnorm(gene) @ gewichte["auf"]) @ gewichte["ab"]
