"""Attention that anyone can see: computed in linear memory, and open to every question about where it looked."""

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

__version__ = "0.1.0"

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
