"""The one error that reaches the user: what went wrong, where, and what to do next.

Owns exit codes. Must not import anything of ours.
"""

from __future__ import annotations

EXIT_GOOD = 0
EXIT_NO = 1
EXIT_USAGE = 2
EXIT_STORE = 3
EXIT_PIPE = 141  # what a shell says of a program whose reader went away (128 + SIGPIPE)


class KbctlError(Exception):
    """A failure told to the user without a traceback.

    ``what`` is one sentence; ``where`` a file, line or option; ``tip`` what to type or change next;
    ``code`` the process's exit status.
    """

    def __init__(
        self, what: str, *, where: str | None = None, tip: str | None = None, code: int = EXIT_USAGE
    ) -> None:
        super().__init__(what)
        self.what, self.where, self.tip, self.code = what, where, tip, code


class StoreError(KbctlError):
    """The store cannot be opened, read or written (exit status 3)."""

    def __init__(self, what: str, *, where: str | None = None, tip: str | None = None) -> None:
        super().__init__(what, where=where, tip=tip, code=EXIT_STORE)
