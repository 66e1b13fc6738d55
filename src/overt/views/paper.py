"""What a terminal prints weights on: its colours, the ramp for its background, and the legend below a picture."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from time import monotonic

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.text import Text

from overt.views.colors import DARK, STOPS, Scale, shades

# Where there are no colours: nothing, and up to everything.
GREYS = " ░▒▓█"
# What may not be seen, which is not nothing.
DOT = "·"
HATCH = "╱"
# Seconds that a terminal has to say what its background is.
_PATIENCE = 0.5
_SWATCHES = 10


@dataclass(frozen=True)
class Paper:
    """A console and the shades that can be read on it."""

    console: Console
    dark: bool = False

    @property
    def width(self) -> int:
        return self.console.width

    @property
    def coloured(self) -> bool:
        return self.console.color_system is not None and not self.console.no_color

    def shades(self, level: np.ndarray) -> np.ndarray:
        """Red, green and blue (…, 3) of numbers 0…1, from the paper to the ink."""
        return shades(level, DARK if self.dark else STOPS)

    @property
    def blank(self) -> np.ndarray:
        """Red, green and blue (3,) of cells that may not be seen."""
        return np.array((5, 6, 10) if self.dark else (233, 231, 225), np.uint8)

    @property
    def masked(self) -> Style:
        """Of the hatching over these."""
        return Style(color="#4a5268" if self.dark else "#b9b4a6", bgcolor=rgb(self.blank))

    def cell(self, level: float, width: int, *, text: str = "") -> tuple[str, Style | str]:
        """One shaded cell, with or without something written on it."""
        if self.coloured:
            return text.center(width), on(self.shades(np.array(level)))
        return (text or GREYS[int(grey(level))] * width).center(width), ""

    def hidden(self, width: int) -> tuple[str, Style | str]:
        """One cell that may not be seen."""
        return (HATCH * width, self.masked) if self.coloured else (DOT.center(width), "dim")

    def legend(self, what: str, scale: Scale, *, masked: bool) -> Text:
        """What is shown, the ramp between two numbers, how it goes, and what is hatched."""
        line = Text().append(f"{what} {scale.low:g} ", "dim")
        if self.coloured:
            for level in np.linspace(0, 1, _SWATCHES):
                line.append(" ", Style(bgcolor=rgb(self.shades(level))))
        else:
            line.append(GREYS.strip())
        line.append(f" {scale.high:g}, {scale.name}", "dim")
        if masked:
            line.append("   ").append(*self.hidden(2 if self.coloured else 1)).append(" masked", "dim")
        return line


def grey(level: float | np.ndarray) -> np.ndarray:
    """Which of ``GREYS`` a number 0…1 is; less than a hundredth is blank."""
    return np.ceil(np.clip(level, 0.01, 1) * (len(GREYS) - 1) - 0.04).astype(int)


def rgb(color: np.ndarray) -> str:
    """A colour as terminals name it."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def on(color: np.ndarray) -> Style:
    """A shade with letters that can be read on it."""
    light = float(color @ np.array([0.299, 0.587, 0.114])) > 140
    return Style(color="#000000" if light else "#ffffff", bgcolor=rgb(color))


def of(console: Console) -> Paper:
    """The console that a view is printed on; a terminal with colours is asked for its background."""
    if not console.width:
        # A terminal that does not know how wide it is says 0, and would be shown nothing.
        console.width = 80
    paper = Paper(console)
    return Paper(console, dark=paper.coloured and is_dark(console))


def is_dark(console: Console) -> bool:
    """Whether the terminal is dark: as ``COLORFGBG`` says, or the terminal itself (OSC 11); what says nothing is light.

    Shades bring their own background along, so the wrong guess can be read, too.
    """
    if not console.is_terminal or console.is_dumb_terminal:
        return False
    if said := re.fullmatch(r"(?:.*;)?(\d+)", os.environ.get("COLORFGBG", "")):
        return int(said[1]) in {0, 1, 2, 3, 4, 5, 6, 8}
    if console.file is not sys.stdout:
        return False
    found = re.search(rb"\x1b]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)", _asked(b"\x1b]11;?\x1b\\"))
    if not found:
        return False
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.5


def _asked(question: bytes) -> bytes:
    """What the terminal answers.  A second question, which all terminals know (DA1), says when there is no answer."""
    try:
        import select
        import termios
        import tty
    except ImportError:
        return b""
    answer = b""
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            at = terminal.fileno()
            # Whoever is not in the foreground would be stopped, and would steal what is typed.
            if os.tcgetpgrp(at) != os.getpgrp():
                return b""
            before = termios.tcgetattr(at)
            try:
                tty.setcbreak(at, termios.TCSANOW)
                if select.select([at], [], [], 0)[0]:
                    # Somebody has typed ahead, and that is for the shell.
                    return b""
                terminal.write(question + b"\x1b[c")
                end = monotonic() + _PATIENCE
                while not re.search(rb"\x1b\[\?[\d;]*c", answer):
                    if not select.select([at], [], [], max(0.0, end - monotonic()))[0]:
                        break
                    answer += os.read(at, 1024)
            finally:
                termios.tcsetattr(at, termios.TCSANOW, before)
    except (OSError, termios.error):
        return b""
    return answer
