"""Neural Turing Machine addressing (Graves et al., 2014, section 3.3), NumPy.

One class = one read head. The controller's output vector is cut into
    key (M) | beta | gate | shift (3) | gamma
and the usual squashings are applied. Steps:
  content   w_c = softmax_n( beta * cosine(key, memory[n]) )
  gate      w_g = g * w_c + (1 - g) * w_prev
  shift     circular convolution, shift distribution over -1, 0, +1
  sharpen   w = w_s ** gamma / sum(w_s ** gamma), gamma >= 1
The sharpening is part of the model, the weights still sum to one.
"""
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=axis, keepdims=True)
    return x


class ReadHead:
    n_shifts = 3

    def __init__(self, M, controller_dim, seed=0):
        rng = np.random.default_rng(seed)
        self.M = M
        self.width = M + 1 + 1 + self.n_shifts + 1
        self.W = rng.normal(0.0, 1.0 / np.sqrt(controller_dim), (controller_dim, self.width))
        self.b = np.zeros(self.width)

    def parameters(self, controller):
        p = controller @ self.W + self.b
        M = self.M
        return dict(
            key=np.tanh(p[:, :M]),
            beta=softplus(p[:, M]),
            g=1.0 / (1.0 + np.exp(-p[:, M + 1])),
            s=softmax(p[:, M + 2:M + 2 + self.n_shifts]),
            gamma=1.0 + softplus(p[:, -1]),
        )

    def address(self, controller, memory, w_prev):
        """controller (B, C), memory (B, N, M), w_prev (B, N) -> w (B, N)"""
        p = self.parameters(controller)
        dot = np.einsum('bm,bnm->bn', p['key'], memory)
        norms = np.linalg.norm(p['key'], axis=1)[:, None] * np.linalg.norm(memory, axis=2)
        w_c = softmax(p['beta'][:, None] * dot / (norms + 1e-8))

        g = p['g'][:, None]
        w_g = g * w_c + (1 - g) * w_prev

        # np.roll(w, +1)[n] = w[n - 1]: weight moves forward
        w_s = sum(p['s'][:, [k]] * np.roll(w_g, k - 1, axis=1) for k in range(self.n_shifts))

        w = w_s ** p['gamma'][:, None]
        return w / w.sum(axis=1, keepdims=True)

    def __call__(self, controller, memory, w_prev):
        w = self.address(controller, memory, w_prev)
        return np.einsum('bn,bnm->bm', w, memory), w
