"""Attention that anyone can see: computed in linear memory, and open to every question about where it looked."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from overt import errors, positions
from overt.attended import Attended
from overt.attention import attend, attention, merge, trace
from overt.biases import Bias, alibi, relative
from overt.cache import Cache
from overt.check import check
from overt.dropout import dropout
from overt.kernels import get_num_threads, set_num_threads
from overt.masks import Mask, causal, documents, keep, packed, padding, prefix, where, window
from overt.reference import Gradient, Step
from overt.scores import Score, additive, bilinear, cosine, dot, scaled_dot
from overt.trace import Trace
from overt.views import show
from overt.weights import Weights

if TYPE_CHECKING:
    from overt import dask as dask
    from overt import files as files
    from overt import layers as layers
    from overt import models as models
    from overt import torch as torch
    from overt.torch.record import record as record

__version__ = "0.1.0"

# What is imported when somebody asks for it, and what it cannot do without.
_LAZY = {"dask": "dask", "files": "numpy", "layers": "numpy", "models": "numpy", "torch": "torch", "record": "torch"}

__all__ = [
    "Attended",
    "Bias",
    "Cache",
    "Gradient",
    "Mask",
    "Score",
    "Step",
    "Trace",
    "Weights",
    "additive",
    "alibi",
    "attend",
    "attention",
    "bilinear",
    "causal",
    "check",
    "cosine",
    "documents",
    "dot",
    "dropout",
    "errors",
    "get_num_threads",
    "keep",
    "merge",
    "packed",
    "padding",
    "positions",
    "prefix",
    "relative",
    "scaled_dot",
    "set_num_threads",
    "show",
    "trace",
    "where",
    "window",
]


# To type checkers, what is not there is not there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "record":
            return import_module("overt.torch.record").record
        if name in _LAZY:
            return import_module(f"overt.{name}")
        raise AttributeError(f"module 'overt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for name, needed in _LAZY.items() if find_spec(needed))})
