"""What the failure of a call asks for: another length where two did not fit, another number of axes, whole numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise, permutations
from math import gcd, isqrt, prod
from typing import Any

from overt.check.calls.call import FLOATS, LISTED, OTHERS, PLAIN, VALUES, Guess, axes_of, is_floats, is_mask, with_axes
from overt.check.text import shapes
from overt.check.text.shapes import Path

# What libraries say where an array of whole numbers, or of booleans, is wanted.
_WHOLE_WANTED = r"[Ll]ong|int(eger)?(32|64|s)?\b.*(index|indices|type)|ind(ex|ices).*([Ii]nt|boolean)"
_REALS_WANTED = (
    r"got Long and (Double|Float|Half|BFloat16)|got: long int != (double|float|c10::)|not implemented for '(Long|Int)'"
)
_BOOLEANS_WANTED = r"[Bb]ool|boolean"
# What libraries say of signals that are shorter than what is laid over them.
_SHORT = (
    r"(?i)kernel size can't be greater|output size( would be|: 0| is too small)|is \d+ but size is|sliding blocks as|"
    r"window shape cannot be larger|padding size should be less|expected 0 < n_fft"
)
# How many times as long they may have to be.
_LONGER = (8, 32, 128)
# How many patches an image may have along a side.
_PATCHES = (4, 8, 7, 14, 2, 16)
# Letters of axes that are no positions.
_WIDTHS = "DWUEPr"


def mended(guess: Guess, error: Mapping[str, Any], free: Callable[[Path], bool]) -> Iterator[Guess]:
    """What the failure asks for: whole numbers, another number of axes, another length where two did not fit."""
    if error.get("type") == "TypeError":
        yield from (guess.given(path, LISTED) for path, kind in guess.kinds if kind == "lengths")
    message = str(error.get("message", ""))
    # A condition that does not hold says what it compares.
    message += " " + " ".join(map(str, error.get("sides", ())))
    kinds = {path: kind for path, kind in guess.kinds if (axes_of(kind) or kind == "positions") and free(path)}
    here = [path for path in kinds if ".".join(path) in error.get("arguments", ())]
    numbered = any(kind in OTHERS or kind[:6] == "below " for _, kind in guess.kinds)
    unseen = not numbered and re.search(r"ind(ex|ices).*out of (range|bounds)", message)
    # What the line names, and then what that may be made of.
    made = dict.fromkeys([*here, *kinds])
    if unseen or wants_whole({"message": message}):
        # What is 0 or 1 may be one of two sorts.
        yield from (guess.given(path, f"below 2: {''.join(axes_of(kind))}") for path, kind in guess.kinds
                    if kind[:7] == "0 and 1" and free(path))  # fmt: skip
        # What is documented without a width is rather words than what has one.
        for path in sorted(made, key=lambda path: guess.told and kinds[path][-1] in _WIDTHS):
            if is_floats(kinds[path]):
                # Of words there is one number where a vector has many, but for an axis that other whole numbers have.
                last = guess.told or any(k[:6] == "below " and k[-1] == kinds[path][-1] for k in kinds.values())
                # Those that have two axes are of samples and positions.
                same = "BT" if re.fullmatch(r"[BTS]W", kinds[path]) and not last else kinds[path]
                fewer = dict.fromkeys((kinds[path][: None if last else -1], same, kinds[path][:1]))
                yield from (guess.given(path, f"below 4: {some}") for some in fewer if some)
        # Several may be words, of as many samples and positions.
        every = [path for path, kind in kinds.items() if is_floats(kind)]
        for paths in (here, every) if not guess.told else ():
            words = guess
            for path in paths:
                words = words.given(path, "below 4: BT")
            yield words
    if re.search(r"must match|broadcast", message):
        # One number may be the length of all samples: of some keys, so that others are hidden.
        yield from (guess.given(path, "2") for path, kind in guess.kinds
                    if kind == "lengths" and ".".join(path) in error.get("arguments", ()) and free(path))  # fmt: skip
    if re.search(_REALS_WANTED, message):
        # What looked like words is as many numbers.
        real = guess
        for path in [path for path, kind in kinds.items() if kind[:6] == "below "]:
            real = real.given(path, "".join(axes_of(kinds[path])))
        yield real
    turns = [path for path, kind in guess.kinds if kind in ("cosines", "sines")]
    named = {".".join(path) for path in turns} & {*error.get("arguments", ())}
    if turns and (named or re.search(r"shapes|must match|[Tt]oo many indices", message)):
        # Tables of turns have a number for each pair, or for each number, and may be those of each sample.
        for way in ("half {}", "{} (B, T)", "half {} (B, T)"):
            other = guess
            for path in turns:
                other = other.given(path, way.format(dict(guess.kinds)[path]))
            yield other
        # Heads may be wider than their number says.
        told = [int(n) for n in re.findall(r"\((\d+)\)", message)]
        wider = [n for n in told if n != guess.lengths.D and guess.lengths.D in told]
        yield from (guess.sized(D=n) for n in wider)
    out_of_range = re.search(r"out of (range|bounds)", message)
    if out_of_range:
        for path in made:
            below = re.fullmatch(r"below (\d+): (\w+)", kinds[path])
            if below and int(below[1]) > 2:
                yield guess.given(path, f"below 2: {below[2]}")
    if re.search(_BOOLEANS_WANTED, message):
        for path in here or kinds:
            if not is_mask(kinds[path]):
                yield guess.given(path, f"mask ({', '.join(axes_of(kinds[path]))})")
    axis = re.search(r"range of \[-\d, \d\], but got (\d)|axis (\d) is out of bounds", message)
    if axis is not None:
        # It has at least one axis more than that.
        least = int(axis[1] or axis[2]) + 1
        # Each sample has a mask before heads have.
        masks = [path for path in here or kinds if is_mask(kinds[path]) and axes_of(kinds[path])[:1] != ("B",)]
        yield from (guess.given(path, with_axes(kinds[path], ("B", *axes_of(kinds[path])))) for path in masks)
        for count in (least, least + 1):
            some = [kind for kind in FLOATS if len(kind) == count and not set("PX3") & set(kind)][:4]
            yield from (guess.given(path, with_axes(kinds[path], kind)) for path in here or kinds for kind in some)
    rank = re.search(r"expected (\d)[- ]?[dD]\b|(\d)-?[dD]\b|to unpack \(expected (\d+)|einstein.* (\d) dim", message)
    wanted = int(next(n for n in rank.groups() if n)) if rank else 0
    if wanted and error.get("unpacks") == "array":
        for path in here or kinds:
            yield _resized(guess, path, 0, wanted)
    elif wanted:
        for path in here or kinds:
            likely = [kind for kind in FLOATS if len(kind) == wanted and not set("PX3") & set(kind)]
            yield from (guess.given(path, with_axes(kinds[path], kind)) for kind in likely[:6])
    if re.search(_SHORT, message):
        yield from _lengthened(guess, {path: kinds[path] for path in here} or kinds)
    if "must be tuple of Tensors, not Tensor" in message:
        # What is joined is several, such as the two arrays of a state.
        for path in here or kinds:
            both = guess.given(path, "2 of them")
            yield from (both.given((*path, "0"), kind).given((*path, "1"), kind) for kind in ("BW", kinds[path]))
    if re.search(r"number of dim|dimension.*got \d and \d", message):
        # Words have fewer axes than vectors.
        for path in sorted(kinds, key=lambda path: is_floats(kinds[path])):
            yield from _fewer(guess, path)
    if re.search(r"[Tt]oo many indices|must match|broadcast", message):
        # Each sample may have positions of its own.
        yield from (guess.given(path, "positions (B, T)") for path in kinds if kinds[path] == "positions")
    if re.search(r"[Tt]oo many indices", message):
        # Of words there may be samples.
        for path in here or kinds:
            if kinds[path][:6] == "below " and "B" not in axes_of(kinds[path]):
                yield guess.given(path, with_axes(kinds[path], ("B", *axes_of(kinds[path]))))
    if re.search(r"can't multiply sequence by non-int|type\(s\) for [-+*/]: .*'list'", message):
        # A list stands where a number is multiplied.
        for path in here or [path for path, kind in kinds.items() if is_floats(kind)]:
            yield from islice(_fewer(guess, path), 1)
            yield guess.given(path, "W")
    if "tuple index out of range" in message:
        for path in here:
            axes = axes_of(kinds[path])
            yield from (guess.given(path, with_axes(kinds[path], some)) for some in ((*axes, "1"), ("B", *axes)))
    counts = re.search(
        r"subscripts in the equation \((\d+)\) does not match the number of dimensions \((\d+)\)", message
    )
    more = int(counts[1]) - int(counts[2]) if counts else ("too many subscripts" in message) - ("extra dim" in message)
    for path in (here or kinds) if more else ():
        mine = set(axes_of(kinds[path]))
        some = [kind for kind in FLOATS if len(kind) == len(axes_of(kinds[path])) + more and not set("PX3") & set(kind)]
        some = [kind for kind in some if mine <= set(kind) or set(kind) <= mine]
        yield from (guess.given(path, with_axes(kinds[path], kind)) for kind in some[:4])
    channels = re.search(r"input\[(\d+(?:, \d+)*)\] to have (\d+) channels", message)
    if channels is not None:
        # The other shape that is told is that of the weights.
        shape = tuple(map(int, channels[1].split(", ")))
        patch = re.search(r"weight of size \[\d+, \d+, (\d+), \1\]", message)
        flat = [path for path, kind in kinds.items() if is_floats(kind) and "h" not in axes_of(kind)]
        # What has no sides yet may be an image of several patches.
        for path, n in ((path, n * int(patch[1])) for n in _PATCHES for path in flat) if patch else ():
            image = guess.given(path, "BWhw")
            image = replace(image, lengths=image.lengths.resized("h", n).resized("w", n))
            yield _resized(image, path, 1, int(channels[2]))
        message = channels[0]
        yield from (_resized(guess, path, 1, int(channels[2])) for path, kind in kinds.items()
                    if len(shape) > 2 and guess.lengths.shape(axes_of(kind)) == shape)  # fmt: skip
    yield from _told(guess, kinds, message)
    if len(here) == 1 and re.search(r"must match|broadcast", message):
        if is_mask(kinds[here[0]]) and "B" not in axes_of(kinds[here[0]]):
            # A mask has samples before it has fewer axes.
            yield guess.given(here[0], with_axes(kinds[here[0]], ("B", *axes_of(kinds[here[0]]))))
        # What gets a width here has none yet.
        yield from islice(_fewer(guess, here[0]), 1)
    yield from _fitted(guess, {path: kinds[path] for path in here} or kinds, message, free)


def wants_whole(error: Mapping[str, Any]) -> bool:
    """Whether a call failed since something is no array of whole numbers."""
    message = str(error.get("message", ""))
    return re.search(_WHOLE_WANTED, message) is not None and "only integers" not in message


def _fewer(guess: Guess, path: Path) -> Iterator[Guess]:
    """With one axis less of one argument: what is given last may have one too many, but a mask is one of keys."""
    kind = dict(guess.kinds)[path]
    axes = axes_of(kind)
    kept = is_mask(kind) and axes[-1] not in PLAIN
    for i in reversed(range(len(axes) - kept if len(axes) > 1 else 0)):
        yield guess.given(path, with_axes(kind, axes[:i] + axes[i + 1 :]))


def _lengthened(guess: Guess, kinds: Mapping[Path, str]) -> Iterator[Guess]:
    """Much longer along one axis: signals have more samples than positions are tried, and the last axis holds them."""
    for times in _LONGER:
        for path, kind in kinds.items():
            for place, letter in reversed([*enumerate(axes_of(kind))]):
                if letter in (*PLAIN, "B") or len(letter) > 1:
                    continue
                length = times * guess.lengths.axis(letter)
                if letter in _WIDTHS:
                    yield _resized(guess, path, place, length)
                else:
                    yield replace(guess, lengths=guess.lengths.resized(letter, length))


def _told(guess: Guess, kinds: Mapping[Path, str], message: str) -> Iterator[Guess]:
    """Another shape of an argument, where a message has its own and one of as many axes."""
    told = [tuple(map(int, re.findall(r"\d+", some))) for some in re.findall(r"[\[(](\d+(?:, *\d+)+)[\])]", message)]
    for path, kind in kinds.items():
        axes = axes_of(kind)
        shape = guess.lengths.shape(axes)
        for other in told if shape in told else ():
            if len(other) == len(shape) and other != shape:
                yield _shaped(guess, path, other)


def _shaped(guess: Guess, path: Path, shape: Sequence[int]) -> Guess:
    """With an argument of a shape, by letters that have these lengths, or new ones."""
    kind = dict(guess.kinds)[path]
    axes = list(axes_of(kind))
    known = {letter: guess.lengths.axis(letter) for _, k in guess.kinds for letter in axes_of(k) if len(letter) == 1}
    for place, length in enumerate(shape):
        if known.get(axes[place]) != length:
            same = next((letter for letter, n in known.items() if n == length), "1" if length == 1 else None)
            if same is None:
                guess = _resized(guess, path, place, length)
                same = axes_of(dict(guess.kinds)[path])[place]
            axes[place] = same
            guess = guess.given(path, with_axes(kind, axes))
    return guess


def _fitted(guess: Guess, kinds: Mapping[Path, str], message: str, free: Callable[[Path], bool]) -> Iterator[Guess]:
    """Other lengths, of the numbers in a message: one of them is a length that was given, and another is wanted."""
    places = [(path, i, letter) for path, kind in kinds.items() for i, letter in enumerate(axes_of(kind))
              if letter not in PLAIN and len(letter) == 1]  # fmt: skip
    lengths = {letter: guess.lengths.axis(letter) for _, _, letter in places}
    pairs: list[tuple[int, int]] = []
    numbers: list[int] = []
    reshaped = re.search(r"shape '?[\[(]([-\d, ]+)[\])]'? is invalid for input of size (\d+)", message)
    numpy = re.search(r"array of (?:shape \([^)]*\) \()?size (\d+)\)? into shape [\[(]([-\d, ]+)[\])]", message)
    if reshaped or numpy:
        shape, size = (reshaped[1], reshaped[2]) if reshaped else (numpy[2], numpy[1])  # type: ignore[index]
        sides = [int(n) for n in re.findall(r"-?\d+", shape)]
        yield from _cut(guess, lengths, sides)
        if 0 in sides and "G" not in lengths:
            # What is divided by more than it is: what there are more of are key heads.
            yield from (_called(guess, letter, "G") for letter in lengths
                        if lengths[letter] in sides and letter not in "BHT")  # fmt: skip
        for path in kinds if min(sides) > 0 else ():
            if len(sides) != len(axes_of(kinds[path])):
                # What is given that shape may have it.
                yield _shaped(guess.given(path, with_axes(kinds[path], "1" * len(sides))), path, sides)
        # A side of 0 is the quotient of what is shorter than one piece.
        whole, size = abs(prod(side for side in sides if side)), int(size)
        step = whole // gcd(whole, size)
        for length in dict.fromkeys(lengths.values()):
            if min(sides) < 1:
                pairs += [(length, length * step)] if step < 32 else []
            elif size:
                # Either may have followed from what was given.
                pairs += [(length, length * n // m) for n, m in ((whole, size), (size, whole)) if length * n % m == 0]
            # What is reshaped may be the candidate's own, and the length what does not fit it.
            rest = max(1, whole // length ** sides.count(length))
            fits = [n for n in range(16, 1, -1) if n != length and size % (rest * n ** sides.count(length)) == 0]
            pairs += [(length, n) for n in fits[:2] if sides.count(length) > 1]
    else:
        numbers = list(dict.fromkeys(int(n) for n in re.findall(r"(?<![A-Za-wyz_.\d])\d{1,5}", message)))[:8]
        # An axis of 1 fits everything, and hides what can be wrong.
        yield from _sided(guess, kinds, numbers)
        # What is multiplied with a matrix of one row has one number.
        row = bool(re.search(r"size 1 is different from|x\d+ and 1x\d| 1$", message))
        pairs = [(a, b) for a in numbers if a in lengths.values() for b in numbers if 1 - row < b != a]
        # What nobody gave is the candidate's own; and what did not fit stands together.
        pairs.sort(key=lambda pair: (pair[1] in lengths.values(), abs(numbers.index(pair[0]) - numbers.index(pair[1]))))
        product = re.search(r"\d+x(\d+) and (\d+)x\d|got (\d+) expected (\d+)", message)
        if product and int(product[1] or product[3]) not in lengths.values():
            # What is several times as wide as what was given is that of all which is put beside each other.
            made, asked = (int(n) for n in product.groups() if n)
            wide = ((n, asked * n // made) for n in lengths.values() if n > 3 and made in range(2 * n, 9 * n, n))
            pairs[:0] = [(n, wanted) for n, wanted in wide if wanted * made == asked * n and wanted != n]
            # Or as wide as what is put beside it makes it.
            pairs += [(n, n + asked - made) for n in lengths.values() if made > n > made - asked]
    every = {letter: guess.lengths.axis(letter) for _, kind in guess.kinds for letter in axes_of(kind)
             if letter not in PLAIN and len(letter) == 1}  # fmt: skip
    for length, wanted in pairs:
        mine = [place for place in places if lengths[place[2]] == length]
        same = next((letter for letter, n in lengths.items() if n == wanted), None)
        # An axis of what stays as it is may be that of what is hidden too.
        fixed = next((letter for letter, n in every.items() if n == wanted), None) if same is None else None
        for path, axis, _ in mine if fixed else ():
            if is_mask(kinds[path]):
                axes = list(axes_of(kinds[path]))
                axes[axis] = str(fixed)
                yield guess.given(path, with_axes(kinds[path], axes))
        if same is None:
            letters = dict.fromkeys(letter for _, _, letter in mine)
            yield from (replace(guess, lengths=guess.lengths.resized(letter, wanted)) for letter in letters
                        if letter in "BHTSDWGU" or not letter.isupper())  # fmt: skip
        for path, axis, letter in mine:
            if same is None or (same in _WIDTHS) > (letter in _WIDTHS):
                # Positions are no width by accident.
                yield _resized(guess, path, axis, wanted)
            if same is not None:
                # Two axes that have one length by accident hide what is wrong; one axis may be the other.
                axes = list(axes_of(kinds[path]))
                axes[axis] = same
                yield guess.given(path, with_axes(kinds[path], axes))
    for path, kind in guess.kinds:
        if kind in VALUES and VALUES[kind](guess.lengths) in numbers and free(path):
            some = [other for other in VALUES if VALUES[other](guess.lengths) in numbers and other not in (kind, "1")]
            yield from (guess.given(path, other) for other in some[:2])


def _cut(guess: Guess, lengths: Mapping[str, int], sides: Sequence[int]) -> Iterator[Guess]:
    """Two windows along each axis of what is cut into such: n // m and m stand beside each other for each."""
    pairs = [(k, m) for k, m in pairwise(sides) if m > 1]
    fits = {letter: 2 * m for letter, n in lengths.items() for k, m in pairs[:0:-1] if k == n // m and n % m
            and letter not in _WIDTHS + "B"}  # fmt: skip
    # Sides are as long as each other where one number stands for both.
    if len(fits) > 1:
        resized = guess.lengths
        for letter, length in fits.items():
            resized = resized.resized(letter, length)
        yield replace(guess, lengths=resized)


def _called(guess: Guess, letter: str, other: str) -> Guess:
    """With another letter for one axis wherever it is."""
    told = []
    for path, kind in guess.kinds:
        axes = [other if one == letter else one for one in axes_of(kind)]
        told.append(
            (path, with_axes(kind, axes) if axes else kind.replace(f"length of {letter}", f"length of {other}"))
        )
    return replace(guess, kinds=tuple(told))


def _sided(guess: Guess, kinds: Mapping[Path, str], numbers: Sequence[int]) -> Iterator[Guess]:
    """Other sides of an image, where as many positions as it has are named, and others are wanted."""
    for kind in kinds.values():
        axes = axes_of(kind)
        sides = next((i for i in range(len(axes) - 1) if axes[i : i + 2] == ("h", "w")), None)
        if sides is None:
            continue
        height, width = guess.lengths.axis("h"), guess.lengths.axis("w")
        # Patches of several pixels, with what stands before all of them: as many times as many.
        for one, two, before in ((a, b, n) for a in numbers for b in numbers for n in (0, 1) if b > a > n):
            times = isqrt((two - before) // (one - before))
            if times > 1 and (one - before) * times**2 == two - before and height * width != one:
                yield replace(guess, lengths=guess.lengths.resized("h", times * height).resized("w", times * width))
        area = height * width
        for wanted in numbers if area in numbers else ():
            height = max((n for n in range(1, int(wanted**0.5) + 1) if wanted % n == 0), default=1)
            if wanted != area and height > 1:
                yield replace(guess, lengths=guess.lengths.resized("h", height).resized("w", wanted // height))
        # Or other frames of it.
        frames = [a for n, a in enumerate(axes) if n not in (sides, sides + 1) and a not in (*PLAIN, "B")]
        for letter, one, two in ((a, *pair) for a in frames for pair in permutations(numbers[:3], 2)):
            length = guess.lengths.axis(letter) * two
            if one and length and length % one == 0:
                yield replace(guess, lengths=guess.lengths.resized(letter, length // one))


def _resized(guess: Guess, path: Path, axis: int, length: int) -> Guess:
    """With a length of its own for one axis of one argument."""
    kind = dict(guess.kinds)[path]
    axes = list(axes_of(kind))
    axes[axis] = next(shapes.unseen("".join(letter for letter, _ in guess.lengths.more)))
    resized = replace(guess, lengths=guess.lengths.resized(axes[axis], length))
    return resized.given(path, with_axes(kind, axes))
