"""Which cells of the (…, H, T, S) score matrix are meant: what masks, biases and dropout are asked about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace

from overt.errors import ArgumentError, DtypeError, ShapeError

Array = Any
"""An array of any library that follows the array API standard."""
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ArrayT = TypeVar("ArrayT", bound=Any, default=Any)
else:
    from typing import TypeVar

    ArrayT = TypeVar("ArrayT")
"""The same, of the type that goes in and comes out."""

# Beyond all lengths, and far from where sums of positions overflow.
FAR = 2**40

# NumPy takes longer to spell a dtype than a small problem takes to compute.
_NAMES: dict[Any, str] = {np.dtype(name): name for name in ("float16", "float32", "float64")}
# bfloat16 where nobody has taught NumPy that type: words that it can move, and can do no wrong arithmetic with.
WORDS = np.dtype("V2")
_NAMES[WORDS] = "bfloat16"


@dataclass(frozen=True, eq=False)
class Packing:
    """Sequences one behind the other: number i has the queries ``queries[i]`` ≤ t < ``queries[i + 1]``, keys alike."""

    queries: np.ndarray
    keys: np.ndarray

    def __len__(self) -> int:
        return len(self.keys) - 1

    def sequence(self, t: np.ndarray) -> np.ndarray:
        """Number of each query's sequence."""
        return np.searchsorted(self.queries, t, side="right") - 1

    def shift(self, *, aligned: bool) -> np.ndarray:
        """What takes a query of each sequence to a key: its last to the last one if ``aligned``, or first to first."""
        shift = self.keys - self.queries
        return shift[1:] if aligned else shift[:-1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Packing):
            return NotImplemented
        return np.array_equal(self.queries, other.queries) and np.array_equal(self.keys, other.keys)

    def __hash__(self) -> int:
        return hash((self.queries.tobytes(), self.keys.tobytes()))


@dataclass(frozen=True, eq=False)
class Shape:
    """Sizes of a whole score matrix: leading axes ``batch``, query heads H, queries T, keys S.

    In packed sequences, each row of batches holds several, and positions are counted in each of them.
    """

    batch: tuple[int, ...]
    H: int
    T: int
    S: int
    packing: Packing | None = None

    @property
    def B(self) -> int:
        """Number of batch rows, all leading axes together."""
        return prod(self.batch)

    def per_batch(self, values: Array) -> Array:
        """Broadcast values (…) to the leading axes and flatten them: (B,)."""
        return spread(values, self.batch).reshape(self.B)

    @property
    def full(self) -> tuple[int, ...]:
        """(…, H, T, S)."""
        return *self.batch, self.H, self.T, self.S

    def flattened(self, array: np.ndarray) -> np.ndarray | None:
        """An array that broadcasts to (…, H, T, S) as a view (B, H, T, S); None where only a copy has that shape."""
        full = np.broadcast_to(array, self.full)
        try:
            return full.reshape((self.B, self.H, self.T, self.S), copy=False)
        except ValueError:
            return None

    def cells(self) -> Cells:
        """All cells, as index arrays that broadcast to (B, H, T, S)."""
        b, h, t, s = (np.arange(n) for n in (self.B, self.H, self.T, self.S))
        return Cells(self, b[:, None, None, None], h[:, None, None], t[:, None], s)


@dataclass(frozen=True, eq=False)
class Cells:
    """Integer index arrays that broadcast together; ``b`` counts batch rows in C order over all leading axes."""

    shape: Shape
    b: np.ndarray
    h: np.ndarray
    t: np.ndarray
    s: np.ndarray

    @property
    def xp(self) -> Any:
        """The library of the indices."""
        return np

    def rows(self) -> Cells:
        """The queries alone: b, h and t without the axis of keys."""
        return Cells(self.shape, self.b[..., 0], self.h[..., 0], self.t[..., 0], np.zeros(1, np.int64))

    def position(self, offset: Array | None) -> np.ndarray:
        """Key position at which each query stands: t + offset, by default aligned to the end (t + S − T)."""
        packing = self.shape.packing
        if packing is not None:
            start = self.t + self.pick(packing.shift(aligned=offset is None), self.sequence())
        else:
            start = self.t + (self.shape.S - self.shape.T if offset is None else 0)
        return start if offset is None else start + self.pick(self.shape.per_batch(offset), self.b)

    def begin(self) -> np.ndarray:
        """First key of each query's own sequence: 0 where nothing is packed."""
        packing = self.shape.packing
        return self.t * 0 if packing is None else self.pick(packing.keys, self.sequence())

    def length(self, lengths: Array) -> np.ndarray:
        """What each query finds among lengths that are one per batch row, or one per packed sequence."""
        shape, packing = self.shape, self.shape.packing
        if packing is None:
            return self.pick(shape.per_batch(lengths), self.b)
        rows = spread(lengths, (*shape.batch, len(packing))).reshape(shape.B, len(packing))
        return self.pick(rows, self.b, self.sequence())

    def pick(self, array: Array, *index: Array) -> Array:
        """What these indices, made of the cells' own, pick from an array."""
        return array[index]

    def ask(self, predicate: Callable[..., Array]) -> Array:
        """What a function of (b, h, t, s) says about these cells."""
        return host("what the predicate says", predicate(self.b, self.h, self.t, self.s))

    def sequence(self) -> Array:
        """Number of each query's packed sequence."""
        assert self.shape.packing is not None
        return self.shape.packing.sequence(self.t)

    def of(self, array: Array) -> Array:
        """Values of an array of any library that broadcasts to (…, H, T, S), at these cells."""
        return picked(array, self.index(array))

    def index(self, array: Array) -> tuple[np.ndarray, ...]:
        """Index arrays that pick these cells from an array that broadcasts to (…, H, T, S)."""
        axes = *np.unravel_index(self.b, self.shape.batch or (1,)), self.h, self.t, self.s
        own = axes[len(axes) - array.ndim :] if array.ndim else ()
        return tuple(i if n != 1 else np.zeros(1, np.int64) for i, n in zip(own, array.shape, strict=True))


def picked(array: Array, index: tuple[np.ndarray, ...]) -> Array:
    """What index arrays pick from an array of any library."""
    if isinstance(array, np.ndarray):
        return array[index]
    # Other libraries want index arrays of their own.
    xp, place = array_namespace(array), device(array)
    return array[tuple(xp.asarray(i, device=place) for i in index)]


def dtype_name(x: Array) -> str:
    """Name of an array's dtype, the same for every library."""
    dtype = x.dtype
    known = _NAMES.get(dtype) if isinstance(dtype, np.dtype) else None
    return known or getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]


def device(x: Array) -> Any:
    """Where an array lies; None where it is only traced and lies nowhere yet."""
    return getattr(x, "device", None)


def widened(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers in the dtype of accumulation."""
    if x.dtype == WORDS:
        # The upper half of a float32 is a bfloat16.
        x = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return x.astype(dtype)


def is_float(x: Array) -> bool:
    """Whether an array of any library holds real floating-point numbers."""
    return "float" in dtype_name(x)


def is_elsewhere(values: Any) -> bool:
    """Whether these are a tensor in the memory of a device, which is better left there, or one that is mapped over."""
    return hasattr(values, "detach") and (values.device.type != "cpu" or _is_mapped(values))


def _is_mapped(tensor: Any) -> bool:
    """Whether ``torch.vmap`` maps over a tensor, which has no numbers of its own then."""
    # Whoever holds a tensor has imported torch.
    torch = sys.modules["torch"]
    if torch.compiler.is_compiling():
        return False
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def spread(values: Array, shape: tuple[int, ...]) -> Array:
    """A view of an array of NumPy, or of a tensor, as if it had this shape."""
    return np.broadcast_to(values, shape) if isinstance(values, np.ndarray | np.generic) else values.expand(shape)


def integers(name: str, values: Array) -> Array:
    """Values that must be whole numbers, as int64 that nobody else can change, where they are."""
    # Asked of the caller's own array, and not of NumPy's, since torch.compile knows no more of that than its numbers.
    if not _are_whole(values):
        known = dtype_name(values) if hasattr(values, "dtype") else dtype_name(host(name, values))
        if not known.startswith(("int", "uint")):
            raise DtypeError(f"{name} must be integers, not {known}: convert them with .astype(int)")
        if (
            known == "uint64"
            and not is_elsewhere(values)
            and (largest := host(name, values).max(initial=0)) > np.iinfo(np.int64).max
        ):
            raise ArgumentError(f"{name} reach {largest}: integers have 64 bits, sign included")
    if is_elsewhere(values):
        return values.detach().long().clone()
    return host(name, values).astype(np.int64)


def _are_whole(values: Any) -> bool:
    """Whether these are whole numbers in a list, or in lists of lists, or one alone."""
    if isinstance(values, list | tuple):
        # A list, which torch.compile can look into.
        return all([_are_whole(value) for value in values])  # noqa: C419
    return isinstance(values, int) and not isinstance(values, bool) and -(2**63) <= values < 2**63


def plain(name: str, x: Array) -> Array:
    """A subclass of NumPy's array as the array itself, unless it means something else by its operators."""
    if type(x) is np.ndarray or not isinstance(x, np.ndarray):
        return x
    if isinstance(x, np.ma.MaskedArray | np.matrix):
        raise DtypeError(
            f"{name} is a {type(x).__name__}, not a plain array: use numpy.asarray({name}), and mask= for masks"
        )
    return np.asarray(x)


def check_layout(name: str, x: Array) -> None:
    """Raise for tensors of torch whose numbers do not lie in one array: sparse and nested ones."""
    if getattr(x, "is_nested", False):
        raise DtypeError(
            f"{name} is a nested tensor: pad it with torch.nested.to_padded_tensor (overt.padding hides what is added)"
        )
    if str(getattr(x, "layout", "torch.strided")) != "torch.strided":
        raise DtypeError(f"{name} is a tensor of layout {x.layout}: convert it with to_dense()")


def numbered(name: str, values: Array) -> Array:
    """An array whose numbers are about to be read; raises where it has none."""
    if hasattr(values, "detach") and values.device.type == "meta":
        raise ArgumentError(f"the numbers of {name} are read here, and a tensor on meta has none: give one that has")
    if hasattr(values, "detach") and _is_mapped(values):
        raise ArgumentError(
            f"the numbers of {name} are read here, and what torch.vmap maps over has none: give them unmapped"
        )
    return values


def host(name: str, values: Array) -> np.ndarray:
    """An array of any library, or numbers in lists, as a NumPy array."""
    if type(values) is np.ndarray:
        return values
    values = plain(name, values)
    if uncalled(values):
        raise DtypeError(f"{name} is {shown(values)}, not an array")
    if hasattr(values, "detach"):
        values = numbered(name, values).detach().cpu()
        values = values.float() if dtype_name(values) == "bfloat16" else values
        try:
            # After Tensor.numpy() nobody may free the memory of a tensor, as FSDP does with that of parameters.
            # Only floats are parameters, and torch.compile, which meets the others here, knows numpy() alone.
            if is_float(values):
                return np.from_dlpack(values)
        except (BufferError, RuntimeError, TypeError, ValueError):
            # What has no memory of its own, such as the negative of another, has an array all the same.
            pass
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DtypeError(f"{name} is no array, and cannot be made one: {error}") from None


def brief(array: Any) -> str:
    """An array in a repr: its numbers where they are few, its shape where they are many."""
    if isinstance(array, np.ndarray | np.generic) and array.size <= 8:
        return " ".join(np.array2string(np.asarray(array), separator=", ").split())
    return f"array {tuple(array.shape)}"


def uncalled(value: Any) -> bool:
    """Whether a value is a function or a class where something that it makes is wanted."""
    return isinstance(value, type) or (callable(value) and not hasattr(value, "dtype"))


def shown(value: Any) -> str:
    """What somebody gave, in one short line of an error."""
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        home = str(getattr(value, "__module__", None)).split(".")
        if home[0] != "overt":
            return f"the {'class' if isinstance(value, type) else 'function'} {name}"
        own = f"overt.positions.{name}" if home[-1] == "positions" else f"overt.{name}"
        return f"{own} itself (call it: {own}(…))"
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        # Python writes no integers of thousands of digits.
        return f"an integer of {value.bit_length()} bits"
    return text if len(text) <= 60 else f"{text[:40]}… ({type(value).__name__})"


def kind(value: Any) -> str:
    """The same where only the type can be wrong."""
    return shown(value) if callable(value) and hasattr(value, "__name__") else f"a {type(value).__name__}"


def is_number(value: Any) -> bool:
    """Whether a value is one real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def whole(name: str, value: Any, *, most: int | None = FAR) -> int:
    """A count: one whole number, at least 0, and no more than memory could ever hold, or ``most``, if any."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentError(f"{name} must be a whole number, not {shown(value)}")
    if value < 0:
        raise ArgumentError(f"{name} must be at least 0, not {shown(value)}")
    if most is not None and value > most:
        raise ArgumentError(f"{name} must be at most {most}, not {shown(value)}")
    return int(value)


def broadcasts(got: tuple[int, ...], full: tuple[int, ...]) -> bool:
    """Whether an array of one shape broadcasts to another without changing it."""
    try:
        return np.broadcast_shapes(tuple(got), full) == full
    except ValueError:
        return False


def check_leading(name: str, got: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Raise unless ``got`` broadcasts to the leading axes."""
    if broadcasts(got, batch):
        return
    hint = "one per batch row" if batch else "a single one, or give the inputs a batch axis: q[None]"
    raise ShapeError(f"{name} have leading shape {got}, but the inputs have batch axes {batch}: give {hint}")
