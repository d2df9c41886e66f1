"""The command that a log shows before the server's own words: a shell's prompt, ``set -x``, a runner's echo.

Owns finding it and reading it as far as one engine's flags are known. Must not decide whether the server took
its arguments: its own dump of them says more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ingest.events import Reader, Values
from ingest.logline import Line
from kb.vocab.commands import parse_shell

MAX_LINES = 60
_PROGRAM = {
    "vllm": r"vllm serve|python3? -m vllm\.entrypoints\.(?:openai\.)?api_server|api_server\.py",
    "sglang": r"python3? -m sglang\.launch_server|sglang serve|launch_server\.py",
    "llama.cpp": r"llama-server(?:\.exe)?|llama_server",
    "tensorrt-llm": r"trtllm-serve",
}
# A prompt ends in a sign of its own; assignments and a container's start may stand before the program.
_PROMPT = re.compile(
    r"^(?:[^\s#$%>][^#$%>\n]{0,160})?[#$%>] |^\++ |^(?:[Cc]ommand|[Cc]md|CMD|Running): ?"
    r"|^\w{2,8}: (?:segmentation fault|abort|illegal hardware instruction|killed) +(?:\(core dumped\) +)?"
)
_BEFORE = r"^(?:(?:env|exec|nohup|sudo|time|numactl|[A-Za-z_]\w*=\S*|-\S+) +)*(?:\S*[/\\])?"
_CONTAINER = re.compile(r"^(?:sudo +)?(?:docker|podman|nerdctl) run ")


class _Shown:
    def __init__(self, engine: str) -> None:
        self.active = False
        self._engine = engine
        self._starts = re.compile(rf"{_BEFORE}(?:{_PROGRAM[engine]})(?:\s|$)")
        self._rows: list[str] = []

    def feed(self, line: Line) -> list[tuple[str, Values]]:
        """Take a line; what the command says once its last line has come."""
        if not self.active:
            text = _PROMPT.sub("", line.text.strip(), count=1)
            if not line.is_plain or not (self._starts.match(text) or _CONTAINER.match(text)):
                return []
            self._rows = [text]
        else:
            self._rows.append(line.text)
        self.active = self._rows[-1].rstrip().endswith("\\") and len(self._rows) < MAX_LINES
        return [] if self.active else self._done()

    def _done(self) -> list[tuple[str, Values]]:
        launch = next(iter(parse_shell("\n".join(self._rows))), None)
        if launch is None or launch.engine != self._engine:
            return []
        shown = {"settings": dict(launch.settings), "environment": dict(launch.environment)}
        return [("facts", {"shown": {**shown, "model": launch.model}})]


def shown_command(engine: str) -> Callable[[], Reader]:
    """A reader of the commands that start this engine."""
    return lambda: _Shown(engine)
