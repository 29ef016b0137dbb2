"""The exceptions of the package, which the native half raises too."""

__all__ = ["DivergedError", "Error", "FileError", "InputError", "SolveError", "UnknownNameError"]


class Error(Exception):
    """Everything that this package raises on purpose."""


class InputError(Error, ValueError):
    """A value that cannot be used. The message names it, and what was expected."""


class UnknownNameError(InputError, KeyError):
    """A name that does not exist."""

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0]) if self.args else ""


class FileError(Error, OSError):
    """A file that cannot be read, written or used."""


class DivergedError(Error, ArithmeticError):
    """A training that diverged; its last checkpoint is as good as before."""


class SolveError(Error, RuntimeError):
    """A problem that could not be solved to the end."""


for _class in (Error, InputError, UnknownNameError, FileError, SolveError, DivergedError):
    _class.__module__ = "acrl"  # where they are to be imported from
del _class
