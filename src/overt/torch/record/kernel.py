"""The log-sum-exp that torch's own kernels know and keep to themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# The operators that leave the log-sum-exp out unless they are asked for it, by their fifth argument.
_ASKED = ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")


class Tap(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, it hears the lse (B, H, T) of the attention kernels that run: ``lse_of`` has the last one."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lse: Tensor | None = None

    def __enter__(self) -> Self:
        self.lse = None
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    @contextmanager
    def _again(self) -> Iterator[None]:
        super().__enter__()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled while a model is recorded, and to say so at every operation would take longer than it.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.__name__, kwargs or {}
        if name.startswith("flex_attention") and "backward" not in name:
            found = func(*args, **kwargs)
            # In units of log 2, as its kernels compute.
            self.lse = found[1] * math.log(2)
            return found
        if name.startswith("scaled_dot_product_attention"):
            # In inference mode it comes whole, before it has chosen a kernel.
            with self._again():
                return func.decompose(*args, **kwargs)
        if not name.startswith("_scaled_dot_product") or "backward" in name:
            return func(*args, **kwargs)
        if name.partition(".")[0] in _ASKED and len(args) > 4:
            args = (*args[:4], True, *args[5:])
        found = func(*args, **kwargs)
        if isinstance(found, tuple) and len(found) > 1 and isinstance(found[1], Tensor) and found[1].ndim == 3:
            # Some kernels pad the queries.
            self.lse = found[1][:, :, : args[0].shape[2]]
        return found


def lse_of(tap: Tap, B: int, H: int, T: int, dtype: torch.dtype) -> Tensor | None:
    """What a tap heard since the last time as (B, H, T), None where it heard nothing of that size."""
    lse, tap.lse = tap.lse, None
    if lse is None or lse.numel() != B * H * T:
        return None
    return (lse if lse.shape == (B, H, T) else lse.reshape(B, H, T)).to(dtype).detach()
