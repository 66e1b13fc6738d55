"""What one call of attention asks, its tensors apart; as a text that torch.compile and torch.export can carry."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from overt import biases, grid, scores
from overt.biases import Bias, Dense, as_bias
from overt.dropout import Dropout
from overt.errors import ArgumentError, DtypeError
from overt.grid import Array, check_layout, dtype_name, host, is_float
from overt.masks import Mask, Window, as_mask, causal, mask, spans
from overt.problem import Problem, check_beside, namespace
from overt.reference import Gradient
from overt.scores import Score
from overt.torch.arrays import array
from overt.torch.blocks import Held, widened

_CAUSAL = causal()
HALVES = (torch.float16, torch.bfloat16)
# What a text may name: values that hold numbers, arrays and each other, and nothing else.
_KINDS = {
    kind.__name__: kind
    for kind in (Dropout, *chain.from_iterable(vars(module).values() for module in (grid, mask, spans, biases, scores)))
    if isinstance(kind, type) and is_dataclass(kind)
}


@dataclass(frozen=True, eq=False)
class Call:
    """The options of ``overt.torch.attention``; those that may have gradients are tensors, its ``parameters``."""

    score: Score
    mask: Mask | Tensor | None
    bias: Bias | None
    softcap: float | None
    sinks: Tensor | None
    dropout: Dropout | None
    num_threads: int | None

    @staticmethod
    def of(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        score: Score,
        mask: Mask | Tensor | None,
        bias: Bias | Array | None,
        softcap: float | None,
        sinks: Array | None,
        dropout: Dropout | None,
        num_threads: int | None,
    ) -> Call:
        """Raise unless q, k and v are tensors on one device, as are the parameters then, wherever they came from."""
        tensors: dict[str, Any] = {"q": q, "k": k, "v": v}
        check_layout("mask", mask)
        for name, x in tensors.items():
            if not isinstance(x, Tensor):
                namespace(**tensors)
                raise DtypeError(f"{name} is a {type(x).__name__}, but others are tensors: use torch.as_tensor({name})")
        if isinstance(mask, Tensor) and mask.dtype != torch.bool:
            as_mask(mask)
        call = Call(score, mask, as_bias(bias, on_host=False), softcap, sinks, dropout, num_threads)
        given = call.parameters
        tensors |= {name: x for name, x in given.items() if isinstance(x, Tensor)}
        for name, x in given.items():
            if name in tensors and x.is_floating_point() and x.dtype.itemsize < 2:
                raise DtypeError(f"{name} is {dtype_name(x)}: convert it with .float()")
        for name, x in tensors.items():
            check_layout(name, x)
            if x.device != q.device:
                raise ArgumentError(f"{name} lies on {x.device}, but q on {q.device}: move one with .to(device)")
        strangers = {name: x for name, x in given.items() if not isinstance(x, Tensor)}
        if not strangers:
            return call
        return call.exchanged({name: _tensor(name, x).to(q.device) for name, x in strangers.items()})

    @cached_property
    def plain(self) -> bool:
        """Whether this is scaled dot-product attention, causal or not, and nothing else."""
        asked = self.bias, self.softcap, self.sinks, self.dropout, self.num_threads
        default = type(self.score) is scores.Product and self.score.scale is None
        return default and all(x is None for x in asked) and (self.mask is None or self.mask is _CAUSAL)

    @property
    def parameters(self) -> dict[str, Any]:
        """Sinks, the parameters of the terms of the bias, and those of the score."""
        found = {} if self.sinks is None else {"sinks": self.sinks}
        if self.bias is not None:
            found |= {f"bias {i}": term.parameter for i, term in enumerate(self.bias.terms)}
        for name in getattr(type(self.score), "__match_args__", ()):
            value = getattr(self.score, name)
            if hasattr(value, "shape"):
                found[f"score {name}"] = value
        return found

    def exchanged(self, parameters: Mapping[str, Tensor]) -> Call:
        """The same with other tensors in the place of some parameters."""
        weights = {name.removeprefix("score "): x for name, x in parameters.items() if name.startswith("score ")}
        bias = self.bias
        if bias is not None:
            terms = tuple(parameters.get(f"bias {i}", term.parameter) for i, term in enumerate(bias.terms))
            bias = bias.exchanged(terms if len(terms) > 1 else terms[0])
        return _copied(
            self,
            score=_copied(self.score, **weights) if weights else self.score,
            bias=bias,
            sinks=parameters.get("sinks", self.sinks),
        )

    def widened(self, q: Tensor) -> Call:
        """The same for inputs that become float32, with biases of half types that become it too."""
        halves: dict[str, Tensor] = {}
        for i, term in enumerate(() if self.bias is None else self.bias.terms):
            if isinstance(term, Dense):
                x = term.parameter
                # bfloat16 reaches the kernels as float32 whatever it lies beside.
                if x.dtype != torch.bfloat16:
                    check_beside("bias", x, dtype_name(q))
                if x.dtype in HALVES:
                    halves[f"bias {i}"] = x.float()
        return self.exchanged(halves) if halves else self

    def gradient(self, found: Mapping[str, Array]) -> Gradient:
        """Gradients by name, q, k and v among them, as everybody knows them."""
        bias = None if self.bias is None else tuple(found[f"bias {i}"] for i in range(len(self.bias.terms)))
        weights = {name.removeprefix("score "): x for name, x in found.items() if name.startswith("score ")}
        return Gradient(
            found["q"],
            found["k"],
            found["v"],
            bias[0] if bias is not None and len(bias) == 1 else bias,
            found.get("sinks"),
            weights,
        )

    def hosted(self, q: Tensor, k: Tensor, v: Tensor) -> Problem:
        """The problem for the kernels, in the memory of CPU tensors."""
        threads = torch.get_num_threads() if self.num_threads is None else self.num_threads
        return Problem.of(array(q), array(k), array(v), num_threads=threads, **self.options(self.mask))

    def opened(self, q: Tensor, k: Tensor, v: Tensor) -> Problem:
        """The problem for blocks of rows in torch, in the dtype of accumulation, differentiable in every tensor."""
        return widened(self.described(q, k, v))

    def described(self, q: Tensor, k: Tensor, v: Tensor) -> Problem:
        """The problem as it is, in torch."""
        mask = Held(self.mask.to(q.device)) if isinstance(self.mask, Tensor) else self.mask
        return Problem.of(q, k, v, **self.options(mask))

    def options(self, mask: Any) -> dict[str, Any]:
        """What ``Problem.of`` is asked, with this mask."""
        sinks = self.sinks
        if sinks is not None and sinks.dtype in HALVES:
            sinks = sinks.float()
        return {
            "score": self.score,
            "mask": mask,
            "bias": self.bias,
            "softcap": self.softcap,
            "sinks": sinks,
            "dropout": self.dropout,
        }

    def write(self, tensors: list[Tensor], integers: list[int], floats: list[float]) -> str:
        """All that is asked as a text, which names tensors and numbers by their places in these lists."""
        asked = (self.score, self.mask, self.bias, self.softcap, self.sinks, self.dropout, self.num_threads)
        return _write(asked, tensors, integers, floats)


def read(text: str, tensors: Sequence[Tensor], integers: Sequence[int], floats: Sequence[float]) -> Call:
    """What ``Call.write`` wrote."""
    if not (tensors or integers or floats):
        return _constant(text)
    return Call(*_read(_parsed(text), {"t": tensors, "i": integers, "f": floats}))


@lru_cache(maxsize=64)
def _constant(text: str) -> Call:
    """Of a call that names no tensors and no numbers."""
    return Call(*_read(_parsed(text), {}))


def _tensor(name: str, x: Any) -> Tensor:
    if torch.compiler.is_compiling() and isinstance(x, np.ndarray):
        # What a traced array holds torch alone can say; biases and scores have looked before.
        found = torch.as_tensor(x)
        return found if found.dtype == torch.float64 else found.float()
    x = host(name, x)
    if not is_float(x):
        raise DtypeError(f"{name} is {dtype_name(x)}, not floats: convert it with astype")
    # A copy, which may be written to, of a type that torch knows.
    return torch.as_tensor(np.array(x, np.float64 if dtype_name(x) == "float64" else np.float32))


def _copied(value: Any, **fields: Any) -> Any:
    """A frozen value with some fields exchanged."""
    new = copy.copy(value)
    for name, x in fields.items():
        object.__setattr__(new, name, x)
    return new


def _write(value: Any, tensors: list[Tensor], integers: list[int], floats: list[float]) -> str:
    if isinstance(value, np.ndarray):
        tensors.append(torch.as_tensor(value))
        return f"a{len(tensors) - 1}"
    if isinstance(value, Tensor):
        tensors.append(value)
        return f"t{len(tensors) - 1}"
    if value is None or isinstance(value, bool):
        return repr(value)
    # Numbers that change from call to call may have become symbols, which are no text.
    if isinstance(value, int):
        integers.append(value)
        return f"i{len(integers) - 1}"
    if isinstance(value, float):
        floats.append(value)
        return f"f{len(floats) - 1}"
    if not (isinstance(value, tuple) or hasattr(type(value), "__match_args__")):
        raise ArgumentError(
            "overt.where holds a function, which no compiled or exported graph can carry: give a boolean tensor as mask"
        )
    parts = value if isinstance(value, tuple) else [getattr(value, name) for name in type(value).__match_args__]
    name = "" if isinstance(value, tuple) else type(value).__name__
    return name + "(" + "".join([_write(part, tensors, integers, floats) + "," for part in parts]) + ")"


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _read(node: ast.expr, places: dict[str, Sequence[Any]]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        kind, place = node.id[0], int(node.id[1:])
        return array(places["t"][place].cpu()) if kind == "a" else places[kind][place]
    if isinstance(node, ast.Tuple):
        return tuple(_read(part, places) for part in node.elts)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    made: Any = _KINDS[node.func.id]
    parts = [_read(part, places) for part in node.args]
    if made is Window and parts == [None, 0, None]:
        # Known by its identity.
        return _CAUSAL
    # What was checked when it was first made is not checked again.
    return _copied(object.__new__(made), **dict(zip(made.__match_args__, parts, strict=True)))
