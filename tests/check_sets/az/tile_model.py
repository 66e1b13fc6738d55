"""Cycle-free functional model of the attention unit (AU) of our accelerator.

The RTL team compares its waveforms against this file, so it walks over the tiles in the
same order as the hardware: for every tile of queries, all tiles of keys from left to
right, with one running maximum, one running sum and one accumulator per query row.
At the end the accumulator is divided by the sum; the result must be that of plain
softmax attention up to rounding.
"""
import dataclasses
import json

import numpy as np


@dataclasses.dataclass
class AUConfig:
    tile_q: int = 16
    tile_k: int = 32
    acc_dtype: str = "float32"
    causal: bool = False

    @classmethod
    def from_json(cls, path):
        with open(path) as f:
            return cls(**json.load(f))


@dataclasses.dataclass
class Counters:
    qk_macs: int = 0
    pv_macs: int = 0
    exps: int = 0
    skipped_tiles: int = 0


class AttentionUnit:
    def __init__(self, cfg: AUConfig):
        self.cfg = cfg
        self.counters = Counters()

    def run(self, q, k, v):
        """q [n, d], k [m, d], v [m, dv], one head.  Causal: the last query sees the last key."""
        cfg = self.cfg
        n, d = q.shape
        m = k.shape[0]
        dt = np.dtype(cfg.acc_dtype)
        scale = dt.type(1.0 / np.sqrt(d))
        out = np.zeros((n, v.shape[1]), dt)
        shift = m - n
        for q0 in range(0, n, cfg.tile_q):
            q1 = min(q0 + cfg.tile_q, n)
            qt = q[q0:q1].astype(dt) * scale
            run_max = np.full((q1 - q0, 1), -np.inf, dt)
            run_sum = np.zeros((q1 - q0, 1), dt)
            acc = np.zeros((q1 - q0, v.shape[1]), dt)
            for k0 in range(0, m, cfg.tile_k):
                k1 = min(k0 + cfg.tile_k, m)
                if cfg.causal and k0 > q1 - 1 + shift:
                    self.counters.skipped_tiles += 1
                    continue
                s = qt @ k[k0:k1].astype(dt).T
                self.counters.qk_macs += s.size * d
                if cfg.causal:
                    rows = np.arange(q0, q1)[:, None] + shift
                    s = np.where(np.arange(k0, k1)[None] <= rows, s, -np.inf)
                new_max = np.maximum(run_max, s.max(-1, keepdims=True))
                safe = np.where(np.isfinite(new_max), new_max, 0)
                p = np.exp(s - safe)
                corr = np.exp(run_max - safe)
                self.counters.exps += p.size + corr.size
                run_sum = run_sum * corr + p.sum(-1, keepdims=True)
                acc = acc + p @ v[k0:k1].astype(dt)
                self.counters.pv_macs += p.size * v.shape[1]
                run_max = new_max
            out[q0:q1] = acc / np.where(run_sum == 0, 1, run_sum)
        return out


class MultiHeadUnit:
    """Feeds the heads one after another through the same unit, as the sequencer does."""

    def __init__(self, cfg, n_heads):
        self.unit = AttentionUnit(cfg)
        self.n_heads = n_heads

    def run(self, q, k, v):
        outs = []
        for qh, kh, vh in zip(*(np.split(t, self.n_heads, axis=-1) for t in (q, k, v))):
            outs.append(self.unit.run(qh, kh, vh))
        return np.concatenate(outs, -1)


def report(counters, freq_mhz=800, macs_per_cycle=1024):
    cycles = (counters.qk_macs + counters.pv_macs) / macs_per_cycle
    return {"cycles": cycles, "us": cycles / freq_mhz, "exp": counters.exps}


if __name__ == "__main__":
    g = np.random.default_rng(0)
    unit = MultiHeadUnit(AUConfig(causal=True), 4)
    x = g.normal(size=(3, 100, 64)).astype(np.float32)
    y = unit.run(*x)
    print(y.shape, report(unit.unit.counters))
