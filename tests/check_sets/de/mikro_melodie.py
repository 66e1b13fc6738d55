# eine Note nach der anderen, ohne Bibliotheken (Idee: karpathy/microgpt)
import math


def lin(x, w):
    return [sum(a * b for a, b in zip(row, x)) for row in w]


def softmax(z):
    m = max(z)
    e = [math.exp(a - m) for a in z]
    s = sum(e)
    return [a / s for a in e]


def rmsnorm(x):
    r = math.sqrt(sum(a * a for a in x) / len(x) + 1e-6)
    return [a / r for a in x]


def schritt(x, gewichte, keys, values, n_head):
    """Ein Schritt scaled dot-product attention mit Cache.

    x: Vektor der neuen Note; keys, values: Listen der bisherigen Noten, werden
    um die neue verlaengert. Rueckgabe: neuer Vektor derselben Laenge.
    """
    head_dim = len(x) // n_head
    rest = x
    x = rmsnorm(x)
    q = lin(x, gewichte["wq"])
    keys.append(lin(x, gewichte["wk"]))
    values.append(lin(x, gewichte["wv"]))
    aus = []
    for h in range(n_head):
        a, b = h * head_dim, (h + 1) * head_dim
        logits = [sum(qi * ki for qi, ki in zip(q[a:b], k[a:b])) / n_head ** 0.5 for k in keys]
        p = softmax(logits)
        for j in range(a, b):
            aus.append(sum(p[t] * values[t][j] for t in range(len(values))))
    aus = lin(aus, gewichte["wo"])
    return [r + o for r, o in zip(rest, aus)]
