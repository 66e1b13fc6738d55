"""Smokehouse controller: a mixture of small experts, one for each kind of batch.

For every sample the gate compares the sample's embedding with one learned "signature" per expert,
keeps the best ``k`` experts, renormalises their scores, and mixes the experts' answers.  The samples do
not see each other.  NumPy port of the PLC code; float64.
"""
import json
from dataclasses import dataclass, asdict

import numpy as np

EXPERTS = ["salmon", "eel", "bacon", "cheese", "paprika", "malt"]
INPUTS = ["chamber_C", "core_C", "humidity", "smoke_density", "weight_loss", "hours"]
OUTPUTS = ["damper", "fan", "heater"]


@dataclass
class GateConfig:
    dim: int = 8
    k: int = 2
    noise: float = 0.0
    hidden: int = 12


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class SmokeGate:
    def __init__(self, cfg=GateConfig(), seed=3):
        r = np.random.default_rng(seed)
        E, n = len(EXPERTS), len(INPUTS)
        self.cfg = cfg
        self.embed = r.normal(0, n ** -0.5, (n, cfg.dim))
        self.signature = r.normal(0, 1.0, (E, cfg.dim))
        self.w1 = r.normal(0, n ** -0.5, (E, n, cfg.hidden))
        self.w2 = r.normal(0, cfg.hidden ** -0.5, (E, cfg.hidden, len(OUTPUTS)))
        self.rng = np.random.default_rng(seed + 1)

    def route(self, x):
        """[n, inputs] -> weights [n, experts], k non-zero entries per row, rows sum to one"""
        scores = (x @ self.embed) @ self.signature.T / np.sqrt(self.cfg.dim)
        if self.cfg.noise:
            scores = scores + self.cfg.noise * self.rng.normal(size=scores.shape)
        order = np.argsort(-scores, axis=-1, kind="stable")[:, : self.cfg.k]
        top = np.take_along_axis(scores, order, axis=-1)
        weights = np.zeros_like(scores)
        np.put_along_axis(weights, order, softmax(top), axis=-1)
        return weights

    def experts(self, x):
        h = np.maximum(np.einsum("ni,eih->neh", x, self.w1), 0.0)
        return np.einsum("neh,eho->neo", h, self.w2)

    def __call__(self, x):
        x = np.atleast_2d(np.asarray(x, dtype=np.float64))
        w = self.route(x)
        y = np.einsum("ne,neo->no", w, self.experts(x))
        return 1.0 / (1.0 + np.exp(-y)), w

    def balance(self, x):
        """Switch-style load balancing loss, 1.0 when all experts are used alike."""
        p = softmax((x @ self.embed) @ self.signature.T / np.sqrt(self.cfg.dim))
        used = (self.route(x) > 0).mean(0) / self.cfg.k
        return len(EXPERTS) * float((used * p.mean(0)).sum())

    def describe(self):
        return json.dumps({"experts": EXPERTS, **asdict(self.cfg)})


if __name__ == "__main__":
    gate = SmokeGate()
    print(gate.describe())
    samples = np.random.default_rng(0).normal(size=(5, len(INPUTS)))
    settings, w = gate(samples)
    for s, row in zip(settings, w):
        best = EXPERTS[int(row.argmax())]
        print(best.ljust(8), " ".join(f"{n}={v:.2f}" for n, v in zip(OUTPUTS, s)))
    print("balance", round(gate.balance(samples), 3))
