# Order-invariant read-out of graphs of different sizes (Vinyals, Bengio, Kudlur: "Order Matters")
import numpy as np


def segment_sum(x, seg, n):
    out = np.zeros((n,) + x.shape[1:], dtype=x.dtype)
    np.add.at(out, seg, x)
    return out


def segment_softmax(x, seg, n):
    m = np.full(n, -np.inf)
    np.maximum.at(m, seg, x)
    e = np.exp(x - m[seg])
    return e / segment_sum(e, seg, n)[seg]


def lstm_cell(params, x, h, c):
    gates = x @ params["wx"] + h @ params["wh"] + params["b"]
    i, f, g, o = np.split(gates, 4, axis=-1)
    s = lambda t: 1 / (1 + np.exp(-t))
    c = s(f) * c + s(i) * np.tanh(g)
    return s(o) * np.tanh(c), c


def init_set2set(rng, dim):
    k = dim ** -0.5
    return {
        "wx": rng.uniform(-k, k, (2 * dim, 4 * dim)),
        "wh": rng.uniform(-k, k, (dim, 4 * dim)),
        "b": rng.uniform(-k, k, 4 * dim),
    }


def set2set(params, nodes, graph_of_node, n_graphs, steps=3):
    """nodes (N, dim), graph_of_node (N,) -> (n_graphs, 2*dim). A graph without nodes reads zeros."""
    dim = nodes.shape[1]
    h = np.zeros((n_graphs, dim))
    c = np.zeros_like(h)
    q_star = np.zeros((n_graphs, 2 * dim))
    for _ in range(steps):
        h, c = lstm_cell(params, q_star, h, c)
        e = (nodes * h[graph_of_node]).sum(axis=1)
        a = segment_softmax(e, graph_of_node, n_graphs)
        r = segment_sum(a[:, None] * nodes, graph_of_node, n_graphs)
        q_star = np.hstack([h, r])
    return q_star


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    sizes = [4, 1, 6]
    seg = np.repeat(np.arange(3), sizes)
    nodes = rng.standard_normal((sum(sizes), 8))
    params = init_set2set(rng, 8)
    a = set2set(params, nodes, seg, 3)
    order = rng.permutation(len(nodes))
    print(np.allclose(a, set2set(params, nodes[order], seg[order], 3)), a.shape)
