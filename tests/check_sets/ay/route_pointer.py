"""Greedy / sampled tour construction with a trained attention model (Kool et al.).

Everything is plain numpy so that the dispatcher process has no heavy imports.
params (float arrays):
    "Wq_step"  [3h, h]   context -> query      (graph mean, first node, last node)
    "Wk_glimpse", "Wv_glimpse", "Wk_pointer"   [h, h]
    "Wout"     [h, h]    glimpse output
    "v_first"  [2h]      stand-in for first and last node before the tour starts
"""
import numpy as np

N_HEADS = 8
CLIP = 10.0


def masked_log_softmax(z, blocked):
    """z [n], blocked [n] True where the stop may not be chosen."""
    z = np.where(blocked, -np.inf, z)
    top = z.max()
    return z - top - np.log(np.exp(z - top).sum())


def fixed_projections(nodes, params):
    """Keys and values do not change during a tour. nodes: [n, h]."""
    n, h = nodes.shape
    d = h // N_HEADS
    kg = (nodes @ params["Wk_glimpse"]).reshape(n, N_HEADS, d).transpose(1, 2, 0)   # M, d, n
    vg = (nodes @ params["Wv_glimpse"]).reshape(n, N_HEADS, d).transpose(1, 0, 2)   # M, n, d
    kp = nodes @ params["Wk_pointer"]                                               # n, h
    return kg, vg, kp


def decode_step(context, fixed, blocked, params):
    """One decoding step: multi-head glimpse over the open stops, then the pointer.

    Returns log-probabilities over the n stops; blocked ones get -inf. Pointer
    logits are clipped to [-CLIP, CLIP] with tanh before the mask goes on.
    """
    kg, vg, kp = fixed
    M, d, n = kg.shape
    h = M * d
    q = (context @ params["Wq_step"]).reshape(M, 1, d)

    u = np.matmul(q, kg) / np.sqrt(d)                   # M, 1, n
    u[..., blocked] = -np.inf
    u = np.exp(u - u.max(axis=-1, keepdims=True))
    a = u / u.sum(axis=-1, keepdims=True)
    glimpse = np.matmul(a, vg).reshape(h) @ params["Wout"]

    logits = CLIP * np.tanh(kp @ glimpse / np.sqrt(h))  # pointer has one head of width h
    return masked_log_softmax(logits, blocked)


def step_context(nodes, tour, params):
    mean = nodes.mean(axis=0)
    if not tour:
        return np.concatenate([mean, params["v_first"]])
    return np.concatenate([mean, nodes[tour[0]], nodes[tour[-1]]])


def build_tour(nodes, params, rng=None):
    """nodes: encoder output [n, h]. rng given -> sample, otherwise greedy."""
    n = nodes.shape[0]
    fixed = fixed_projections(nodes, params)
    blocked = np.zeros(n, dtype=bool)
    tour, logp = [], 0.0
    while len(tour) < n:
        lp = decode_step(step_context(nodes, tour, params), fixed, blocked, params)
        nxt = int(lp.argmax()) if rng is None else int(rng.choice(n, p=np.exp(lp)))
        logp += lp[nxt]
        tour.append(nxt)
        blocked[nxt] = True
    return tour, logp


def tour_length(xy, tour):
    p = xy[tour]
    return float(np.linalg.norm(p - np.roll(p, -1, axis=0), axis=1).sum())


def best_of(xy, nodes, params, samples=64, seed=0):
    rng = np.random.default_rng(seed)
    tours = [build_tour(nodes, params)[0]]
    tours += [build_tour(nodes, params, rng)[0] for _ in range(samples)]
    return min(tours, key=lambda t: tour_length(xy, t))


def random_params(h, seed=0):
    r = np.random.default_rng(seed)
    p = {k: r.normal(0, h ** -0.5, (h, h)) for k in ("Wk_glimpse", "Wv_glimpse", "Wk_pointer", "Wout")}
    p["Wq_step"] = r.normal(0, (3 * h) ** -0.5, (3 * h, h))
    p["v_first"] = r.normal(0, 1, 2 * h)
    return p


if __name__ == "__main__":
    xy = np.random.default_rng(5).random((12, 2))
    emb = np.tanh(xy @ np.random.default_rng(6).normal(0, 2, (2, 64)))
    t = best_of(xy, emb, random_params(64), samples=8)
    print(t, tour_length(xy, t))
