"""Memory-mapped arena for keys and values, attention in torch.

Long conversations are kept on disk (np.memmap) between the turns of a user;
on the next turn the arena is opened again without a new prefill.

    arena = Arena.open(path, heads, dim); arena.push(k, v); arena.read(q)
"""
import json
import math
import os

import numpy as np
import torch

BLOCK = 16


class Arena:
    def __init__(self, path, heads, dim, length, blocks):
        self.path, self.heads, self.dim = path, heads, dim
        self.length, self.blocks = length, blocks
        self._map()

    @classmethod
    def open(cls, path, heads, dim):
        os.makedirs(path, exist_ok=True)
        meta = os.path.join(path, "meta.json")
        length, blocks = 0, 1
        if os.path.exists(meta):
            with open(meta) as f:
                length, blocks = json.load(f)
        return cls(path, heads, dim, length, blocks)

    def _map(self):
        file = os.path.join(self.path, "kv.bin")
        size = 2 * self.blocks * BLOCK * self.heads * self.dim * 4
        with open(file, "ab") as f:
            f.truncate(max(size, os.path.getsize(file)))
        # [slot, k or v, head, dim]: growing the file keeps old slots in place
        self.kv = np.memmap(file, np.float32, "r+", shape=(self.blocks * BLOCK, 2, self.heads, self.dim))

    def push(self, k, v):
        """k, v: torch [T, heads, dim]"""
        need = self.length + k.shape[0]
        if need > self.blocks * BLOCK:
            self.blocks = -(-need // BLOCK)
            self._map()
        self.kv[self.length:need, 0] = k.detach().cpu().numpy()
        self.kv[self.length:need, 1] = v.detach().cpu().numpy()
        self.length = need
        self.kv.flush()
        with open(os.path.join(self.path, "meta.json"), "w") as f:
            json.dump([self.length, self.blocks], f)

    def read(self, q):
        """q [heads, dim], the newest token; it sees every token pushed so far.
        Goes through the arena block by block and never holds more than one in RAM."""
        top = torch.full((self.heads, 1), float("-inf"))
        norm = torch.zeros(self.heads, 1)
        acc = torch.zeros(self.heads, self.dim)
        for b in range(-(-self.length // BLOCK)):
            part = torch.from_numpy(np.array(self.kv[b * BLOCK:(b + 1) * BLOCK]))
            k, v = part.unbind(dim=1)
            s = torch.einsum("hd,shd->hs", q, k) / math.sqrt(self.dim)
            new = torch.maximum(top, s.amax(dim=1, keepdim=True))
            old = torch.exp(top - new)
            e = torch.exp(s - new)
            norm = norm * old + e.sum(dim=1, keepdim=True)
            acc = acc * old + torch.einsum("hs,shd->hd", e, v)
            top = new
        return acc / norm
