"""Modern Hopfield network (Ramsauer et al. 2020) in pure Python, for a talk without laptops full of CUDA.

Retrieval:   xi <- X softmax(beta X^T xi),  repeated until it does not move any more.
Patterns are stored as rows.
"""
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def softmax(z):
    top = max(z)
    e = [math.exp(x - top) for x in z]
    total = math.fsum(e)
    return [x / total for x in e]


class Hopfield:
    def __init__(self, patterns, beta=8.0):
        """patterns: list of N lists of D floats; beta: inverse temperature (no other scaling)."""
        self.X = [list(p) for p in patterns]
        self.beta = beta

    def weights(self, xi):
        return softmax([self.beta * dot(p, xi) for p in self.X])

    def update(self, xi):
        w = self.weights(xi)
        return [math.fsum(wi * p[c] for wi, p in zip(w, self.X)) for c in range(len(xi))]

    def energy(self, xi):
        """E = -lse(beta, X xi) + xi.xi/2 + log(N)/beta + max_norm^2/2   (>= 0, never grows)"""
        z = [self.beta * dot(p, xi) for p in self.X]
        top = max(z)
        lse = (top + math.log(math.fsum(math.exp(x - top) for x in z))) / self.beta
        big = max(dot(p, p) for p in self.X)
        return -lse + 0.5 * dot(xi, xi) + math.log(len(self.X)) / self.beta + 0.5 * big

    def retrieve(self, xi, tol=1e-9, most=50):
        """xi: list of D floats. Returns (fixed point, number of updates done)."""
        for n in range(1, most + 1):
            new = self.update(xi)
            moved = max(abs(a - b) for a, b in zip(new, xi))
            xi = new
            if moved < tol:
                break
        return xi, n
