"""Policy head for the RTS bot, NumPy only so that it runs inside the game server.

params: flat dict of arrays exported by the trainer (weights stored [in, out]).
"""
import numpy as np

ORDERS = ("move", "attack", "hold", "retreat")


def _dense(params, name, x):
    return x @ params[name + "/w"] + params[name + "/b"]


def _layer_norm(params, name, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    sd = np.sqrt(((x - mu) ** 2).mean(-1, keepdims=True) + eps)
    return (x - mu) / sd * params[name + "/g"] + params[name + "/b"]


def _masked_softmax(logits, alive):
    """alive broadcastable bool. Rows with nobody alive give zeros."""
    big = np.where(alive, logits, -np.inf)
    top = big.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(big - top)
    z = e.sum(axis=-1, keepdims=True)
    return np.divide(e, z, out=np.zeros_like(e), where=z > 0)


def units_mix(params, name, own, others, alive, n_heads):
    """own: [U, D] units under command, others: [E, D] everything on the map,
    alive: [E] bool, False for dead or unseen slots."""
    U, D = own.shape
    E = others.shape[0]
    dh = D // n_heads
    q = _dense(params, name + "/query", own).reshape(U, n_heads, dh)
    k = _dense(params, name + "/key", others).reshape(E, n_heads, dh)
    v = _dense(params, name + "/value", others).reshape(E, n_heads, dh)
    logits = np.einsum("uhd,ehd->hue", q, k) / np.sqrt(dh)
    w = _masked_softmax(logits, alive[None, None, :])
    mixed = np.einsum("hue,ehd->uhd", w, v).reshape(U, D)
    return own + _dense(params, name + "/out", mixed)


def choose_target(params, units, others, alive, greedy=True, rng=None):
    """Pointer over enemies: probabilities [U, E]."""
    q = _dense(params, "pointer/query", units)
    k = _dense(params, "pointer/key", others)
    p = _masked_softmax(q @ k.T / np.sqrt(k.shape[-1]), alive[None, :])
    if greedy:
        return p.argmax(-1), p
    rng = rng or np.random.default_rng()
    return np.array([rng.choice(len(alive), p=row) for row in p]), p


def act(params, own, others, alive, n_heads=4, layers=2):
    x, o = _dense(params, "embed", own), _dense(params, "embed", others)
    for i in range(layers):
        x = units_mix(params, f"mix{i}", _layer_norm(params, f"ln{i}", x), o, alive, n_heads)
    orders = _dense(params, "order", x).argmax(-1)
    targets, _ = choose_target(params, x, o, alive)
    return [(ORDERS[i], int(t)) for i, t in zip(orders, targets)]
