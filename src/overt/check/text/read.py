"""What lies in the arguments of a call, and what each of them is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from overt.check.text.shapes import Path


@dataclass
class Read:
    """What lies in arguments, by names or numbers, and how it is asked for there: "dictionary", "config", or "list"."""

    held: dict[Path, str] = field(default_factory=dict)
    # what it is called where it is taken out
    called: dict[Path, str] = field(default_factory=dict)
    # what stands behind and before a product, and what rows are taken out of, and by what
    behind: set[Path] = field(default_factory=set)
    before: set[Path] = field(default_factory=set)
    tables: set[Path] = field(default_factory=set)
    indices: set[Path] = field(default_factory=set)
    # what takes something out of whatever it is, and out of what is no weight
    picking: set[Path] = field(default_factory=set)
    moving: set[Path] = field(default_factory=set)
    # what is the same as others of its own numbers, or is not, and what is a whole number, or is not
    compared: set[Path] = field(default_factory=set)
    whole: set[Path] = field(default_factory=set)
    # what is the same as what lies in another argument, or is not: what both are called
    labels: set[Path] = field(default_factory=set)
    # what is compared with numbers below 0, or with 0 from below
    negative: set[Path] = field(default_factory=set)
    # what says of each which one before it hangs on, and lists in which others are looked up by how they begin
    hung: set[Path] = field(default_factory=set)
    branches: set[Path] = field(default_factory=set)
    # what has its outputs before its inputs, what slices begin and end at, what something is split into, what slices
    # end at, and what is joined with texts
    linear: set[Path] = field(default_factory=set)
    bounds: set[Path] = field(default_factory=set)
    parts: set[Path] = field(default_factory=set)
    lengths: set[Path] = field(default_factory=set)
    # of what counts others, what is itself the last of these
    last: set[Path] = field(default_factory=set)
    texts: dict[Path, str] = field(default_factory=dict)
    # what stands where a number must: in a text, beside a number where something begins, before what counts up
    numbers: set[Path] = field(default_factory=set)
    # what is one of several lengths, or a factor of one
    sides: set[Path] = field(default_factory=set)
    # rows or columns of the positions of an image
    grids: set[Path] = field(default_factory=set)
    # what counts heads, by what is made of it, and what such a number divides
    heads: set[Path] = field(default_factory=set)
    divided: dict[Path, set[Path]] = field(default_factory=dict)
    # what lies in something and is a number: it is made whole, with what it is multiplied with, or something is by it
    single: set[Path] = field(default_factory=set)
    # methods that are called of something, and that no array has
    methods: dict[Path, set[str]] = field(default_factory=dict)
    # what arguments are called with, several things at once: by position, and by name
    applied: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    # and those that are lists, of which each is called
    listed: set[str] = field(default_factory=set)
    # what the code makes itself where it is None
    absent: set[Path] = field(default_factory=set)
    # what it does without where it is None
    spared: set[Path] = field(default_factory=set)
    # arguments that are added to others, by their names
    added: dict[str, str] = field(default_factory=dict)
    # what arrays are made as long as
    made: set[Path] = field(default_factory=set)
    # how many axes something has where its shape is taken apart
    ranks: dict[Path, set[int]] = field(default_factory=dict)
    # what is asked for its size or shape, and what is made booleans or turned round as these are
    sized: set[Path] = field(default_factory=set)
    flags: set[Path] = field(default_factory=set)
    # what is given an axis of one number behind its own, to be mapped
    columns: set[Path] = field(default_factory=set)
    # what lies in a list and has parts by numbers itself, such as the states of layers
    parted: set[Path] = field(default_factory=set)
    # what says where others are added up
    added_by: set[Path] = field(default_factory=set)
    # matrices, or vectors, that hold three: what they make is split into these
    packed: dict[Path, str] = field(default_factory=dict)
    # what is one word alone: the row that is taken for it is all there is
    alone: set[Path] = field(default_factory=set)
    # layers of an instance that take numbers of words, and what these are given
    embeds: set[str] = field(default_factory=set)
    words: set[Path] = field(default_factory=set)
    # what others are divided by, or multiplied with, and whether something is squashed
    divisors: set[Path] = field(default_factory=set)
    factors: set[Path] = field(default_factory=set)
    squashes: bool = False
    # what something is taken out of by what counts, once for each time
    counted: set[Path] = field(default_factory=set)
    # what layers of a library draw their numbers with
    streams: set[Path] = field(default_factory=set)
    # arguments that are called
    layers: set[Path] = field(default_factory=set)
    # names of the module that stand for lists of texts
    lists: dict[str, list[str]] = field(default_factory=dict)
    # what is looked for before it is asked for, and what is written
    sought: set[Path] = field(default_factory=set)
    stored: set[Path] = field(default_factory=set)

    @property
    def weights(self) -> set[Path]:
        """What others are multiplied with."""
        return self.behind - self.before

    @property
    def caps(self) -> set[Path]:
        """What is divided by before a tanh, and multiplied with behind it."""
        return self.divisors & self.factors if self.squashes else set()

    def depth(self, path: Path) -> int:
        """How many times something is gone into until there is a number, as in a list of lists; 0 if nobody knows."""
        numbers = self.factors | self.single | self.divisors | self.counted
        inside = (one[len(path) :] for one in numbers if one[: len(path)] == path)
        return max((len(one) for one in inside if all(name.isdigit() for name in one)), default=0)

    def enter(self, path: Path, kind: str) -> None:
        """What lies in something, and what that lies in by its number."""
        for end in range(2, len(path)):
            if path[end - 1].isdigit():
                self.held.setdefault(path[:end], "list")
        self.held.setdefault(path, kind)

    def of(self, path: Path) -> str | None:
        """What something is, by how others are asked of it."""
        inside = {p[-1]: kind for p, kind in self.held.items() if p[:-1] == path}
        kind = next(iter(inside.values()), None)
        return f"{len(inside)} of them" if kind == "list" else kind

    @property
    def ends(self) -> dict[Path, str]:
        """What asks for more is no array."""
        owners = {path[:-1] for path in self.held}
        return {path: kind for path, kind in self.held.items() if path not in owners}

    def filled(self, path: Path) -> bool:
        """Whether there need be nothing in something: all of it is looked for, or written beside that."""
        inside = {one for one in self.held if one[:-1] == path}
        return bool(inside & self.sought) and inside <= self.sought | self.stored
