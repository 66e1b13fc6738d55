"""Every exception that overt raises on purpose."""


class OvertError(Exception):
    """Root of the tree: catch this to catch everything that overt refuses."""


class ShapeError(OvertError, ValueError):
    """Axes that do not fit together; the message names the argument, the axis and both sizes."""


class DtypeError(OvertError, TypeError):
    """An array, or something that should be one, of a type that has no meaning here."""


class ArgumentError(OvertError, ValueError):
    """A value outside what the argument allows: a NaN scale, a negative window, an unknown layout."""


class FileError(OvertError):
    """A file that cannot be read, written or understood; the message names it, and the line where there is one."""


class DependencyError(OvertError, ImportError):
    """A package that is needed for this and is not installed; the message says how to install it."""


class RecordingError(OvertError, RuntimeError):
    """An attention of a model that could not be recorded, or whose record does not give the model's own output."""


class ProcessError(OvertError, RuntimeError):
    """Another process of a group is gone, does not answer, or asks for something else; the message says which."""


class QuadraticWarning(UserWarning):
    """Memory quadratic in length where linear memory is the rule; the message says why, and what would do better."""


class StoppedError(SystemExit):
    """A signal asked for the end: the exit code is 128 and its number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
