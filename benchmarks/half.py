"""How fast are the half types?  One thread, against torch in the same type."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np

import overt
from benchmarks import peers
from benchmarks.contest import Row, compete
from benchmarks.forward import exact, inputs


def rows() -> list[Row]:
    """Full and causal, bfloat16 and float16."""
    found = []
    for dtype, bits in ((np.dtype(ml_dtypes.bfloat16), 8), (np.dtype(np.float16), 11)):
        for T in (128, 512, 2048):
            # The goals are those of bfloat16.
            for causal, floor, goal in ((False, 1.7, 2.5), (True, 2.2, 3.0)):
                floor, goal = (floor, goal) if bits == 8 else (None, None)
                qkv = [x.astype(dtype) for x in inputs(1, 8, 8, T, T, 64)]
                mask = overt.causal() if causal else None
                contenders = {"overt": partial(_overt, *qkv, mask)}
                if "torch" not in peers.missing():
                    contenders["torch"] = _torch(*qkv, causal, dtype.name)
                name = f"{dtype.name}, T = S = {T}, {'causal' if causal else 'full'}"
                answer = exact(*qkv, mask=mask)
                found.append(compete(name, contenders, answer, tolerance=2.0**-bits * 4, floor=floor, goal=goal))
    return found


def _overt(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: overt.masks.Mask | None) -> np.ndarray:
    return overt.attention(q, k, v, mask=mask, num_threads=1)


def _torch(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, name: str) -> peers.Call:
    import torch

    torch.set_num_threads(1)
    tensors = [torch.from_numpy(x.astype(np.float32)).to(getattr(torch, name)) for x in (q, k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    # NumPy knows no bfloat16 of torch's, so the bits are handed over.
    return lambda: attend(*tensors, is_causal=causal).view(torch.uint16).numpy().view(np.dtype(name))
