"""What somebody who runs mypy --strict writes; mypy checks it with the package, and it is never run."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray

import overt

q: NDArray[np.float16] = np.zeros((2, 4, 8), np.float16)
t = torch.zeros(2, 4, 8)

# What comes out is of the library that went in, and the output of the dtype.
assert_type(overt.attention(q, q, q, mask=overt.causal()), NDArray[np.float16])
assert_type(overt.attention(t, t, t, bias=overt.alibi(t[0, 0]) + t), torch.Tensor)

seen = overt.attend(q, q, q, mask=overt.causal() & ~overt.padding([3]))
assert_type(seen, overt.Attended[np.ndarray[Any, Any]])
# The lse of half types is no half type.
lse: NDArray[np.float32] = seen.lse
assert_type(seen.output, np.ndarray[Any, Any])
assert_type(seen.weights, overt.Weights[np.ndarray[Any, Any]])
assert_type(seen.weights[0, 1:3], np.ndarray[Any, Any])
assert_type(seen.top(3), tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]])
assert_type(seen.map(2, 2, pool="mean"), np.ndarray[Any, Any])
assert_type(overt.merge([(seen.output, seen.lse)]), tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]])
# Steps are at least in single precision.
assert_type(overt.trace(q, q, q)["weights"], np.ndarray[Any, Any])

gradient = seen.gradient(seen.output)
assert_type(gradient, overt.Gradient[np.ndarray[Any, Any]])
assert_type(gradient.q, np.ndarray[Any, Any])
dq, dk, dv, dbias = gradient
assert_type(gradient.score, dict[str, np.ndarray[Any, Any]])

of_tensors = overt.attend(t, t, t)
assert_type(of_tensors.lse, torch.Tensor)
assert_type(of_tensors.gradient(t, of_tensors.lse), overt.Gradient[torch.Tensor])
assert_type(of_tensors.gradient(t).v, torch.Tensor)
assert_type(of_tensors.gradient(t)._replace(q=t).sinks, torch.Tensor | None)
assert_type(of_tensors.received(), torch.Tensor)
assert_type(of_tensors.entropy(), torch.Tensor)
assert_type(of_tensors.weights[0], torch.Tensor)
assert_type(overt.trace(t, t, t)["weights"], torch.Tensor)
assert_type(overt.merge([(of_tensors.output, of_tensors.lse)]), tuple[torch.Tensor, torch.Tensor])

cache: overt.Cache[torch.Tensor] = overt.Cache(mask=overt.window(3, 0))
cache.append(t, t)
assert_type(cache.keys, torch.Tensor)
assert_type(cache.attend(t).output, torch.Tensor)
# Who names no library has one all the same.
any_cache = overt.Cache()
any_cache.append(q, q)

assert_type(overt.positions.rope(t, layout="half"), torch.Tensor)
assert_type(overt.positions.rope(q, layout="half"), NDArray[np.float16])


def describe(mask: overt.Mask, bias: overt.Bias, score: overt.Score, seen: overt.Attended) -> str:
    """Public types have names, and need no parameters."""
    return f"{mask | overt.window(None, 0)} {bias + q} {score} {seen.weights.shape}"


# Modules come with the package.
assert_type(overt.layers.softmax(t), torch.Tensor)
assert_type(overt.layers.linear(q, q[0]), NDArray[np.float16])
layer = overt.torch.SelfAttention

# What is wrong is seen before it runs.
overt.attend(q, q, q, masks=overt.causal())  # type: ignore[call-overload]
overt.attention(q, q, q, score=overt.scaled_dot)  # type: ignore[arg-type]
overt.rope  # type: ignore[attr-defined]  # noqa: B018
