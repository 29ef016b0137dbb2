"""The program ``acrl``: the same as the one that Rust's cargo builds, in this process."""

from __future__ import annotations

import signal
import sys

from . import _acrl

__all__ = ["main"]


def main() -> int:
    """Runs the program with the words of the command line; gives its exit status."""
    # Nothing of Python's is to be said about Ctrl-C: the program has its own way with it, or ends.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _acrl.main(["acrl", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
