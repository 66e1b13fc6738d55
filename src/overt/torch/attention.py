"""Attention on torch tensors, with gradients: which way each call takes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from overt.biases import Bias
from overt.dropout import Dropout
from overt.grid import Array
from overt.interchange import warn_of_quadratic
from overt.masks import Mask, Window, causal
from overt.problem import common_dtype
from overt.scores import Product, Score, scaled_dot
from overt.torch import blocks, operator, short
from overt.torch.attended import Attended
from overt.torch.call import HALVES, Call
from overt.torch.fused import can, fused
from overt.torch.gradients import Attention, place

_SCALED_DOT = scaled_dot()
_CAUSAL = causal()
# Tensors that have no rules of their own.
_PLAIN = (Tensor, torch.nn.Parameter)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Tensor | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: Dropout | None = None,
    num_threads: int | None = None,
) -> Tensor:
    """``overt.attention`` for torch tensors, with gradients for q, k, v, sinks and the parameters of biases and scores.

    The arguments and axes are those of ``overt.attention``; num_threads is by default ``torch.get_num_threads()``.
    Memory is linear in length forwards and backwards.  On the CPU, overt's kernels read the tensors where they lie.
    Elsewhere, torch's own fused kernels compute what they can without a mask of their own making, and the rest is
    computed by blocks of rows; masks are worked out there.

    What is known of torch's ways: second derivatives; forward derivatives and ``torch.func``, of which reverse ones
    keep the whole matrix and say so by a ``QuadraticWarning``; autocast, as with torch's own attention;
    ``torch.compile`` without graph breaks and ``torch.export`` for every mask but ``overt.where``, where the seed of
    dropout may be a tensor, so that it is drawn anew.
    """
    bare = bias is None and softcap is None and sinks is None and dropout is None and num_threads is None
    # Of products only that by 1 / √D has no scale of its own.
    if bare and isinstance(score, Product) and score.scale is None:
        y = _plain(q, k, v, mask)
        if y is not None:
            return y
    options = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks, "dropout": dropout}
    call, q, k, v, dtype, _ = _asked(q, k, v, num_threads, **options)
    if q.device.type != "cpu" and can(call, q, k):
        return fused(call, q, k, v).to(dtype)
    return _found(call, q, k, v)[0].to(dtype)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Tensor | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: Dropout | None = None,
    num_threads: int | None = None,
    found: tuple[Tensor, Tensor] | None = None,
) -> Attended:
    """The same operation as ``attention``, kept open: an ``Attended`` of tensors, on the device of q.

    found: output (…, H, T, E) and lse (…, H, T) of just this attention where another kernel has computed them; they are
    handed back as they are, and all else is computed from q, k and lse when it is asked for.
    """
    options = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks, "dropout": dropout}
    call, q, k, v, dtype, given = _asked(q, k, v, num_threads, **options)
    if found is not None:
        return Attended(call, (q, k, v), found, given=given)
    along: list[Any] = []
    found = _found(call, q, k, v, along)
    return Attended(call, (q, k, v), found, along=along[0] if along else None, dtype=dtype, given=given)


def _plain(q: Any, k: Any, v: Any, mask: Any) -> Tensor | None:
    """Output where a small problem would compute in less time than it takes to describe it; None everywhere else."""
    if forward_ad._current_level >= 0:
        return None
    if is_compiling():
        return _plain_operator(q, k, v, mask)
    if not (type(q) in _PLAIN and type(k) in _PLAIN and type(v) in _PLAIN):
        return None
    if not (mask is None or mask is _CAUSAL) or not q.is_cpu or not _bare() or torch._C._len_torch_dispatch_stack():
        return None
    graph = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    found = short.forward(q, k, v, mask, rows=graph)
    if found is None or not graph:
        return found and found[0]
    return place(q, k, v, mask, found)


def _plain_operator(q: Any, k: Any, v: Any, mask: Any) -> Tensor | None:
    """The same in a graph: whatever torch.compile has to look at here, compiled code looks at before each call."""
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        return None
    if not (q.is_cpu and k.is_cpu and v.is_cpu and _bare()):
        return None
    # Of an object that comes from outside torch.compile looks at the numbers, and not which it is.
    if mask is not None and not (
        isinstance(mask, Window) and mask.left is None and mask.right == 0 and mask.offset is None
    ):
        return None
    return operator.attention(q, k, v, False, asked="" if mask is None else "causal")[0]


def _bare() -> bool:
    """Whether no transform of torch.func and no autocast wants something of a call."""
    return not (blocks.active() or torch.is_autocast_enabled("cpu"))


# Of both torch.compile knows by itself when they change.  This is all that ``torch.compiler.assume_constant_result``
# does, but for an import of the compiler, which takes more time than that of all else.
_bare._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _asked(
    q: Tensor, k: Tensor, v: Tensor, threads: int | None, **options: Any
) -> tuple[Call, Tensor, Tensor, Tensor, torch.dtype, Call]:
    """What is asked, in the dtypes in which it is computed, that of the output, and the call in the caller's own."""
    call = given = Call.of(q, k, v, num_threads=threads, **options)
    if torch.amp.is_autocast_available(q.device.type) and torch.is_autocast_enabled(q.device.type):
        # As with torch's own: all floats but float64 become that type.
        low = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x.to(low) if x.is_floating_point() and x.dtype != torch.float64 else x for x in (q, k, v))
    dtype = q.dtype
    # Before NumPy is shown a type that it does not know.
    common_dtype(q=q, k=k, v=v)
    if dtype in HALVES and not call.score.identity:
        # What is compared is rounded no earlier than the output.
        q, k, v, call = q.float(), k.float(), v.float(), call.widened(q)
    return call, q, k, v, dtype, given


def _found(call: Call, q: Tensor, k: Tensor, v: Tensor, along: list[Any] | None = None) -> tuple[Tensor, Tensor]:
    """Output and lse; what else came along is appended where there is a list for it."""
    # First, since a compiled graph would lose what a transform wants of it: there torch.compile refuses the question.
    if blocks.active() or forward_ad._current_level >= 0:
        return _transformed(call, q, k, v)
    if is_compiling():
        return operator.call_operator(call, q, k, v)
    tensors = [q, k, v, *call.parameters.values()]
    if torch._C._len_torch_dispatch_stack() or any(type(x) not in _PLAIN for x in tensors):
        return operator.call_operator(call, q, k, v)
    with torch.no_grad():
        found = operator.compute(call, q, k, v, along)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return Attention.apply(call, found, *tensors)  # type: ignore[no-untyped-call]
    return found


def _transformed(call: Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Output and lse by operations that torch can differentiate forwards, and map over."""
    problem = call.opened(q, k, v)
    if _keeps():
        warn_of_quadratic(problem.shape, "reverse derivatives by torch.func, unlike torch.autograd, keep all weights")
    output, lse = blocks.forward(problem)
    return problem.outward(output).to(q.dtype), problem.outward(lse)


def _keeps() -> bool:
    """Whether what is computed now is kept for a way back."""
    if not blocks.active():
        return torch.is_grad_enabled()
    kinds = (layer.key() for layer in torch._C._functorch.get_interpreter_stack() or ())
    return any(kind == torch._C._functorch.TransformType.Grad for kind in kinds)
