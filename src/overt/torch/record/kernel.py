"""The log-sum-exp that torch's own kernels know and keep to themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import TorchDispatchMode

SDPA = functional.scaled_dot_product_attention
SILENT = torch._C.DisableTorchFunction

_FLASH = SDPBackend.FLASH_ATTENTION.value
_level = torch._C._functorch.maybe_current_level
# The operators that leave the log-sum-exp out unless they are asked for it, by their fifth argument.
_ASKED = ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")


class Tap:
    """Runs attention, and hears the lse (B, H, T) of its kernel: ``lse_of`` has the last one."""

    def __init__(self) -> None:
        self.lse: Tensor | None = None
        self._operators = _Operators(self)

    def run(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a function of attention gives, to the bit."""
        self.lse = None
        if func is SDPA and (found := _flash(*args, **kwargs)) is not None:
            output, self.lse = found
            return output
        with self._operators:
            return func(*args, **kwargs)


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor] | None:
    """Output and lse of ``scaled_dot_product_attention`` where torch takes its flash kernel for the CPU, else None.

    A mode that hears operators costs as much as ten of them, at every call.
    """
    tensors = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    for x in tensors:
        if type(x) is not Tensor or not x.is_cpu or x.ndim != 4:
            return None
    # What is wrong is said by the function itself.
    if (is_causal and attn_mask is not None) or not query.dtype == key.dtype == value.dtype:
        return None
    if torch.is_autocast_enabled("cpu") or _level() is not None:
        return None
    # Other modes wait for the function as it was called.
    if torch._C._len_torch_function_stack():
        return None
    chosen = torch._fused_sdp_choice(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    if chosen != _FLASH:
        return None
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        added = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = added.masked_fill_(attn_mask.logical_not(), -math.inf)
    found = torch._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )
    return found[0], found[1]


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, a tap hears what operators of attention know."""

    supports_higher_order_operators = True

    def __init__(self, tap: Tap) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tap = tap

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
            self._tap.lse = found[1] * math.log(2)
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
            self._tap.lse = found[1][:, :, : args[0].shape[2]]
        return found


def lse_of(tap: Tap, B: int, H: int, T: int, dtype: torch.dtype) -> Tensor | None:
    """What a tap heard since the last time as (B, H, T), None where it heard nothing of that size."""
    lse, tap.lse = tap.lse, None
    if lse is None or lse.numel() != B * H * T:
        return None
    lse = lse if lse.shape == (B, H, T) else lse.reshape(B, H, T)
    return without_gradient(lse if lse.dtype == dtype else lse.to(dtype))


def without_gradient(x: Tensor) -> Tensor:
    """The tensor, detached if gradients would flow through it."""
    return x.detach() if x.requires_grad else x
