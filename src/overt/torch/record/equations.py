"""Products of two tensors as equations: a letter for each axis, the same where axes meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

_PRODUCTS = {
    "matmul", "__matmul__", "linalg_matmul", "bmm", "baddbmm", "baddbmm_", "mm", "addmm", "addmm_", "_sparse_mm",
}  # fmt: skip
_LETTERS = "".join(map(chr, range(0x250, 0x2A0)))
# Letters that nobody writes, for the axes of an ellipsis.
_SPARE = "".join(map(chr, range(0x100, 0x150)))


def equation(name: str, args: Any, kwargs: Mapping[str, Any], first: Tensor, second: Tensor) -> str | None:
    """What ``einsum`` or ``tensordot`` of two factors does, without an ellipsis and with its output; None of others."""
    if name == "tensordot":
        dims = kwargs.get("dims", args[2] if len(args) > 2 else 2)
        n = first.ndim
        dims = dims.tolist() if isinstance(dims, Tensor) else dims
        ours, others = (range(n - dims, n), range(dims)) if isinstance(dims, int) else dims
        own, other = list(_LETTERS[:n]), list(_LETTERS[n : n + second.ndim])
        for i, j in zip(ours, others, strict=True):
            other[j] = own[i]
        out = [a for a in (*own, *other) if (a in own) != (a in other)]
        return f"{''.join(own)},{''.join(other)}->{''.join(out)}"
    if name != "einsum" or not isinstance(args[0], str) or args[0].count(",") != 1:
        return None
    left, arrow, right = args[0].replace(" ", "").partition("->")
    if not arrow:
        # Letters that stand once, in the order of the alphabet.
        once = sorted(a for a in left if a not in ",." and left.count(a) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    terms = left.split(",")
    counts = [x.ndim - len(a.replace("...", "")) for a, x in zip(terms, (first, second), strict=True)]
    spare = [_SPARE[max(counts) - n : max(counts)] for n in (*counts, max(counts))]
    one, two, whole = (a.replace("...", more) for a, more in zip((*terms, right), spare, strict=True))
    return f"{one},{two}->{whole}"


def terms(
    name: str, equation: str | None, first: Tensor, second: Tensor, result: Tensor
) -> tuple[str, str, str] | None:
    """The axes of two factors and of their product as letters, None for a product that has no such form."""
    if equation is not None:
        left, _, out = equation.partition("->")
        one, _, other = left.partition(",")
        found = one, other, out
    elif name == "linear":
        letters = _LETTERS[: first.ndim - 1]
        found = letters + "c", "sc"[2 - second.ndim :], letters + "s"[2 - second.ndim :]
    elif min(first.ndim, second.ndim) > 1 and name in _PRODUCTS:
        letters = _LETTERS[: result.ndim - 2]
        found = (
            _leading(first, result, letters, "x") + "tc",
            _leading(second, result, letters, "y") + "cs",
            letters + "ts",
        )
    else:
        return None
    sizes = zip(found, (first, second, result), strict=True)
    return found if all(len(set(some)) == len(some) == x.ndim for some, x in sizes) else None


def _leading(x: Tensor, result: Tensor, letters: str, other: str) -> str:
    """Letters of the leading axes of a factor; where it has one cell and the product several, one of its own."""
    n = x.ndim - 2
    own, whole = letters[len(letters) - n :], result.shape[result.ndim - 2 - n :]
    return "".join(
        a if x.shape[i] == whole[i] else chr(ord(a) + 0x100 * "xy".index(other) + 0x100) for i, a in enumerate(own)
    )
