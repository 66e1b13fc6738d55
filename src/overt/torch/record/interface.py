"""The attention interface of Hugging Face transformers: each implementation passes here, with its module and arguments.

The package is looked at only if somebody else has imported it.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from overt.torch.record import visible
from overt.torch.record.call import Call
from overt.torch.record.kernel import Tap, lse_of, without_gradient
from overt.torch.record.visible import Visible

# What is understood here, or changes nothing about which weights come out.
_KNOWN = {
    "scaling", "dropout", "is_causal", "softcap", "s_aux", "position_bias", "sliding_window", "output_attentions",
    "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "position_ids", "cache_position", "use_cache",
    "deterministic", "target_dtype", "query_length", "layer_idx", "implementation", "return_dict", "kernel_options",
    "output_hidden_states", "num_items_in_batch", "training",
}  # fmt: skip


class Listener(Protocol):
    """One recording, as the interface knows it."""

    @property
    def thread(self) -> int:
        """The thread that it records."""
        ...

    def owns(self, module: Any) -> bool:
        """Whether a module belongs to the recorded model."""
        ...

    def interface(self, run: Callable[..., Any], implementation: str, module: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run one attention of the model and take note of it."""
        ...


_listeners: list[Listener] = []
_original: Callable[..., Any] | None = None


def listen(listener: Listener) -> None:
    """Let a recording see every attention that passes the interface, until it leaves."""
    global _original
    modeling = sys.modules.get("transformers.modeling_utils")
    interface = getattr(modeling, "AttentionInterface", None)
    if interface is None or not hasattr(interface, "get_interface"):
        return
    if not _listeners:
        _original = interface.get_interface
        interface.get_interface = _get_interface
    _listeners.append(listener)


def leave(listener: Listener) -> None:
    """Undo ``listen``; the last one to leave puts the interface back."""
    if listener not in _listeners:
        return
    _listeners.remove(listener)
    if not _listeners:
        sys.modules["transformers.modeling_utils"].AttentionInterface.get_interface = _original


def _get_interface(self: Any, implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
    assert _original is not None
    return functools.partial(_observed, _original(self, implementation, default), implementation)


def _observed(run: Callable[..., Any], implementation: str, /, module: Any, *args: Any, **kwargs: Any) -> Any:
    thread = threading.get_ident()
    for listener in _listeners:
        if listener.thread == thread and listener.owns(module):
            run = functools.partial(listener.interface, run, implementation)
    return run(module, *args, **kwargs)


def complete(call: Call, result: Any, tap: Tap) -> None:
    """Add what came out to what was described.  The output of an implementation has the axes (B, T, H, E)."""
    B, H, T, _ = call.sizes
    output = without_gradient(result[0])
    call.output = (output if output.shape[:-1] == (B, T, H) else output.reshape(B, T, H, -1)).transpose(1, 2)
    # Kernels without sinks are told of them afterwards, if at all.
    lse = lse_of(tap, B, H, T, call.wide)
    call.lse = lse if call.sinks is None else None


def returned(call: Call, result: Any) -> Call | None:
    """The same with the weights that an implementation returned, for where its arguments do not tell all."""
    weights = result[1] if isinstance(result, tuple) and len(result) > 1 else None
    if not isinstance(weights, Tensor) or tuple(weights.shape) != call.sizes:
        return None
    B, H, T, S = call.sizes
    nothing = weights.new_empty((B, H, T, 0)), weights.new_empty((B, call.k.shape[1], S, 0))
    seen = Visible.everything(S)
    return Call(call.way, *nothing, call.v, call.output, 1.0, seen, weights=weights.detach(), dropped=call.dropped)


def describe(
    implementation: str,
    module: Any,
    /,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    *more: Any,
    **kwargs: Any,
) -> Call:
    """What a call of the interface asks for, heads before positions."""
    grad = query.requires_grad or key.requires_grad or value.requires_grad
    if grad:
        query, key, value = query.detach(), key.detach(), value.detach()
    mask = attention_mask
    B, H, T, D = query.shape
    if B > 1:
        key, value = (x.expand(B, *x.shape[1:]) for x in (key, value))
    S = key.shape[2]
    scale, causal = kwargs.get("scaling"), kwargs.get("is_causal")
    causal = causal if causal is not None else getattr(module, "is_causal", True)
    seen, bias = Visible.everything(S), None
    if type(mask).__name__ == "BlockMask":
        seen = visible.of_predicate(mask.mask_mod, *_sizes_of(mask, B, H), T, S, query.device)
    elif "flash" in implementation:
        seen = _flash(mask, T, S, bool(causal), kwargs.get("sliding_window"))
    elif mask is not None:
        mask = mask if mask.shape[-1] == S else mask[..., :S]
        seen, bias = visible.split(mask.reshape((1,) * (4 - mask.ndim) + mask.shape))
    elif causal and T > 1 and implementation not in ("eager", "flex_attention"):
        # A cache that has room to spare is cut at the last query.
        if S > T:
            S = T
            key, value = key[:, :, :S], value[:, :, :S]
        seen = Visible.causal(T, S, 0)
    position_bias = kwargs.get("position_bias")
    if position_bias is not None:
        position_bias = visible.narrowed(position_bias.detach()[..., :S])
        bias = position_bias if bias is None else bias + position_bias
    sinks = kwargs.get("s_aux")
    unknown = [name for name, x in kwargs.items() if name not in _KNOWN and x is not None and x is not False]
    return Call(
        "interface",
        query,
        key,
        value,
        query,
        float(scale) if scale is not None else D**-0.5,
        seen,
        bias,
        softcap=kwargs.get("softcap"),
        sinks=None if sinks is None else sinks.detach(),
        dropped=bool(kwargs.get("dropout")),
        grad=grad,
        unknown=tuple(sorted(unknown)),
    )


def _sizes_of(mask: Any, B: int, H: int) -> tuple[int, int]:
    """Batch rows and heads that a BlockMask tells apart."""
    own = mask.kv_num_blocks.shape
    return (B if own[0] > 1 else 1), (H if own[1] > 1 else 1)


def _flash(mask: Tensor | None, T: int, S: int, causal: bool, window: int | None) -> Visible:
    """Flash attention aligns at the last key, and takes padding as (B, S)."""
    seen = Visible.everything(S)
    if causal:
        seen = Visible.causal(T, S, S - T, None if window is None or window >= S else window - 1)
    if isinstance(mask, Tensor):
        seen = seen.both(visible.of_booleans(mask[:, None, None, :S].to(torch.bool)))
    return seen
