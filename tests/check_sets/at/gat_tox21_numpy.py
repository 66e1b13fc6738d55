# Graph attention (Velickovic et al.) for Tox21 molecules, inference in NumPy.
# Weights are taken from the .npz that train.py writes.
import numpy as np

ATOMS = ["C", "N", "O", "F", "S", "Cl", "Br", "P", "I", "?"]


def one_hot_atoms(symbols):
    X = np.zeros((len(symbols), len(ATOMS)))
    for r, s in enumerate(symbols):
        X[r, ATOMS.index(s) if s in ATOMS else -1] = 1.0
    return X


def bonds_to_edges(n_atoms, bonds):
    """Undirected bonds -> directed (src, dst) lists, with self loops."""
    src, dst = [], []
    for a, b in bonds:
        src += [a, b]
        dst += [b, a]
    src += list(range(n_atoms))
    dst += list(range(n_atoms))
    return np.array(src), np.array(dst)


def leaky_relu(x, slope=0.2):
    return np.where(x > 0, x, slope * x)


def elu(x):
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


def segment_softmax(e, seg, n_seg):
    """Softmax of e[E, H] inside each group seg[E]."""
    m = np.full((n_seg, e.shape[1]), -np.inf)
    np.maximum.at(m, seg, e)
    ex = np.exp(e - m[seg])
    tot = np.zeros((n_seg, e.shape[1]))
    np.add.at(tot, seg, ex)
    return ex / tot[seg]


class GATLayer:
    """Messages go from src to dst; the coefficients of all edges that enter
    one dst sum to one, for each head on its own."""

    def __init__(self, W, a_src, a_dst, bias, concat=True):
        # W: [F_in, H, F_out]; a_*: [H, F_out]
        self.W, self.a_src, self.a_dst = W, a_src, a_dst
        self.bias = bias
        self.concat = concat

    def __call__(self, X, edges, return_alpha=False):
        src, dst = edges
        n = X.shape[0]
        Z = np.einsum("nf,fho->nho", X, self.W)
        s = (Z * self.a_src).sum(-1)
        d = (Z * self.a_dst).sum(-1)
        e = leaky_relu(s[src] + d[dst])
        alpha = segment_softmax(e, dst, n)
        out = np.zeros_like(Z)
        np.add.at(out, dst, alpha[:, :, None] * Z[src])
        if self.concat:
            out = elu(out.reshape(n, -1) + self.bias)
        else:
            out = out.mean(axis=1) + self.bias
        return (out, alpha) if return_alpha else out


class ToxNet:
    def __init__(self, npz):
        self.layers = []
        for i in range(int(npz["n_layers"])):
            last = i == int(npz["n_layers"]) - 1
            self.layers.append(GATLayer(npz[f"W{i}"], npz[f"as{i}"], npz[f"ad{i}"],
                                        npz[f"b{i}"], concat=not last))
        self.readout = npz["readout"]

    def predict(self, symbols, bonds):
        X = one_hot_atoms(symbols)
        E = bonds_to_edges(len(symbols), bonds)
        for layer in self.layers:
            X = layer(X, E)
        return 1.0 / (1.0 + np.exp(-(X.mean(0) @ self.readout)))
