"""Shell scripts, single command lines, Dockerfiles and systemd units that start a server.

Owns telling such a text from a log that merely quotes a command. The command's words are kb.vocab's.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from ingest.formats import Format, Unreadable
from ingest.launches import engine_of_image, experiment_of
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Problem, Reading
from kb.vocab.engines import Launch, parse_command, parse_shell

_LARGEST = 1 << 20
_START = re.compile(
    r"\bvllm(?:/\S*)? +serve\b|-m +(?:vllm\.entrypoints\.\S+|sglang\.launch_server|sglang_router\S*)|"
    r"-m +dynamo\.(?:sglang|vllm)\b|"
    r"\bsglang +serve\b|\btrtllm-serve\b|\b(?:llama-server|text-generation-launcher)\b|\blmdeploy +serve\b|"
    r"vllm/vllm-openai\S*|lmsysorg/sglang\S*|\bpython3? \S*launch_server\.py\b",
)
_CONTAINER = re.compile(r"\b(?:docker|podman|nerdctl)\b[^\n]* run\b")
_MODEL_FLAG = re.compile(r"(?<![\w-])--model(?:-path|-id)?[ =]")
_SHEBANG = re.compile(r"^#!.*\b(?:ba|z|da|k)?sh\b")
_DOCKERFILE = re.compile(r"^(?:FROM|ENTRYPOINT|CMD|RUN|ENV|ARG)\s", re.MULTILINE)
_INSTALLED = re.compile(
    r"\bpip3? +install\b[^\n]*?[ \"'](vllm|sglang)(?:\[[^\]]*\])?(?:==([\w.+]+))?(?![\w./:-])"
)
_QUOTED = re.compile(r"^(?:\S*/)?(?:ba|z|da)?sh -\w*c \$'((?:\\.|[^'\\])*)'\s*$", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t"}
_ECHOED = re.compile(r"\becho (?:-e )?'([^']{20,})'\s*>")
_FROM = re.compile(r"^FROM +(\S+)", re.MULTILINE)
_UNIT = re.compile(r"^\[(?:Unit|Service|Install)\]\s*$", re.MULTILINE)
_LOG_LINE = re.compile(
    r"^\W{0,3}(?:\(?\w+(?: pid=\d+)?\)? )?(?:INFO|WARNING|ERROR|DEBUG)\b|^\[?\d{4}-\d\d-\d\d[ T]\d\d:|"
    r"^\w+ +\d\d-\d\d \d\d:\d\d|^(?:EngineCore failed to start|\w*Error: \S)",
    re.MULTILINE,
)
_OTHER_SCRIPT = re.compile(r"^(?:(?:ba|z)?sh|\.|source|nohup (?:ba)?sh) +\S+\.sh\b.*$")
_PROMPT = re.compile(
    r"^(?:\$ |\+ |(?:sudo|nohup|exec|env|time|uv|srun|numactl)\s|(?:[\w./-]*/)?(?:ba|z)?sh +-\w*c\s"
    r"|[\w./-]*(?:python3?|vllm|sglang|docker|podman|CUDA_VISIBLE|llama-server|trtllm-serve|lmdeploy)|[A-Z_]+=)"
)
_WORDS = ("vllm", "sglang", "trtllm-serve", "llama-server", "text-generation-launcher", "lmdeploy", ".sh")
_NAMES = (".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".service", ".dockerfile", ".cmd")


def sniff(source: Source) -> float:
    """A server's start in a text that is a script by its first line, its name, or its brevity."""
    head, name = _spoken(source.head), source.name.lower()
    if not any(word in head for word in (*_WORDS, "tensorrt-llm")) or _LOG_LINE.search(head):
        return 0.0
    started = bool(_START.search(head)) or _runs_an_image(source)
    if _UNIT.search(head) and "ExecStart" in head:
        return 0.93 if started else 0.0
    if name.startswith("dockerfile") or (_DOCKERFILE.match(head.lstrip()) and "\nFROM" in f"\n{head}"):
        based = any(engine_of_image(image)[0] for image in _FROM.findall(head))
        return 0.93 if started or based else 0.0
    if _SHEBANG.match(head) or name.endswith(_NAMES):
        return 0.92 if started else 0.0
    return _sniff_bare(head, started=started)


def _runs_an_image(source: Source) -> bool:
    """Whether a script starts a container with a model: an image's own start command need not be named."""
    if not source.name.lower().endswith(_NAMES) or not _CONTAINER.search(source.head):
        return False
    return _MODEL_FLAG.search(source.text[:_LARGEST]) is not None


def read(source: Source) -> Reading:
    """The first server start of the text; the others are listed."""
    text = source.text
    found = list(launches(text))
    problems: list[Problem] = []
    if not found:
        other = next((line for line in text.split("\n") if _OTHER_SCRIPT.match(line.strip())), None)
        if other is None:
            raise Unreadable("no start of a known server was found in these commands")
        what = f"runs another script, which is not here: {other.strip()[:120]}"
        problems.append(Problem(line=1, what=what))
    elif _differ(found):
        what = f"{len(found)} different server starts: the first is told, the rest are listed only"
        problems.append(Problem(line=None, what=what))
    first = found[0] if found else None
    extra = {"unknown_flags": list(first.unknown_flags)} if first and first.unknown_flags else {}
    return Reading(
        path=str(source.path),
        format="launch_script",
        kind="config",
        status="parsed" if found else "partial",
        experiments=(experiment_of(first),) if first else (),
        lines=line_count(text.count("\n") + 1),
        problems=tuple(problems),
        extra=extra | ({"starts": [_short(one) for one in found]} if len(found) > 1 else {}),
    )


def _sniff_bare(head: str, *, started: bool) -> float:
    lines = [line.strip() for line in head.split("\n") if line.strip() and not line.strip().startswith("#")]
    if not lines or len(lines) > 60:
        return 0.0
    if started and _QUOTED.match(head):
        return 0.8
    if started:
        at = next((number for number, line in enumerate(lines) if _START.search(line)), 0)
        before = lines[:at]
        plain = all(re.match(r"^(?:export |set |cd |source |[A-Z_]+=|\$ )|.*\\$", line) for line in before)
        return 0.78 if plain and _PROMPT.match(lines[0]) else 0.0
    return 0.4 if len(lines) <= 2 and _OTHER_SCRIPT.match(lines[0]) else 0.0


def launches(text: str) -> Iterator[Launch]:
    """Every server start in a script, Dockerfile or unit, in order, with its line."""
    plain = _spoken(text[:_LARGEST].replace("\r\n", "\n"))
    plain = re.sub(r"^[ \t]*[$+] ", "", plain, flags=re.MULTILINE)
    if quoted := _QUOTED.match(plain):  # as printf %q writes a whole command
        plain = re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), quoted[1])
    if _UNIT.search(plain):
        plain = _unit_as_shell(plain)
    elif _DOCKERFILE.search(plain) and re.search(r"^FROM\s", plain, re.MULTILINE):
        yield from _of_dockerfile(plain)
        return
    found = parse_shell(
        _without_ansi_quotes(plain)
    )  # a mention (pkill -f, --version) has neither model nor settings
    yield from [one for one in found if one.model or one.settings] or found


def _spoken(text: str) -> str:
    """A command that was saved as a JSON list of its words, as shell; any other text as it is."""
    return shlex.join(_words(text.strip())) if re.match(r"\s*\[\s*\"", text[:200]) else text


_ANSI_QUOTED = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "'": "'\"'\"'", "\\": "\\", '"': '"'}


def _without_ansi_quotes(text: str) -> str:
    """``$'…\\n…'``, as a shell prints a command of several lines, with its escapes undone."""

    def plain(found: re.Match[str]) -> str:
        told = re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[0]), found[1], flags=re.DOTALL)
        return f"'{told}'"

    return _ANSI_QUOTED.sub(plain, text) if "$'" in text else text


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, text) of every line, continued ones joined."""
    number = 1
    joined = "\x00"  # stands for a line end that a backslash takes away
    for line in re.sub(r"\\\n", joined, text.replace(joined, "")).split("\n"):
        yield number, line.replace(joined, " ")
        number += 1 + line.count(joined)


def _unit_as_shell(text: str) -> str:
    """A systemd unit as shell, every command on the line that it has in the unit."""
    found = [""] * (text.count("\n") + 1)
    for number, line in _logical_lines(text):
        key, _, value = line.partition("=")
        if key.strip() == "Environment":
            pairs = re.findall(r'"[^"]*"|\S+=\S*', value.strip())
            found[number - 1] = "; ".join(f"export {one}" for one in pairs)
        elif key.strip() == "ExecStart":
            found[number - 1] = value.strip().lstrip("-@:+!")
    return "\n".join(found)


def _of_dockerfile(text: str) -> Iterator[Launch]:
    environment: dict[str, str] = {}
    words: dict[str, list[str]] = {}
    image, at = "", None
    for number, line in _logical_lines(text):
        keyword, _, rest = line.strip().partition(" ")
        if keyword == "FROM":
            image = rest.split()[0] if rest.split() else ""
        elif keyword == "ENV":
            environment |= _env_pairs(rest)
        elif keyword in ("CMD", "ENTRYPOINT"):
            words[keyword], at = _words(rest.strip()), number
    engine, version = engine_of_image(image)
    pinned = _INSTALLED.findall(text)
    if not engine and len({name for name, _ in pinned}) == 1:
        engine, version = pinned[0][0], pinned[0][1] or None
    argv = words.get("ENTRYPOINT", []) + words.get("CMD", [])
    launch = parse_command(argv, environment, version=version)
    if not launch.engine and engine and any(word.startswith("--") for word in argv):
        launch = parse_command(argv, environment, version=version, engine=engine)
    if launch.engine:
        yield launch._replace(line=at)
        return
    written = [
        one
        for body in _ECHOED.findall(text)
        for one in parse_shell(_unescaped(body), environment, version=version)
    ]
    written = [one for one in written if one.model or one.settings]
    yield from written or ([Launch(engine, version, environment=environment)] if engine else ())


def _unescaped(body: str) -> str:
    """A script that a Dockerfile echoes into a file, as it then stands there."""
    return body.replace("\\n\\\n", "\n").replace("\\n", "\n").replace("\\\\", "\\")


def _env_pairs(text: str) -> dict[str, str]:
    pairs = re.findall(r"""([A-Za-z_]\w*)=("[^"]*"|'[^']*'|\S*)""", text)
    if not pairs and " " in text.strip():
        name, _, value = text.strip().partition(" ")
        return {name: value.strip()}
    return {name: value.strip("\"'") for name, value in pairs}


def _words(text: str) -> list[str]:
    if text.startswith("["):
        try:
            return [str(one) for one in json.loads(text)]
        except (ValueError, RecursionError):
            pass
    return text.split()


def _differ(launches: list[Launch]) -> bool:
    return len({(one.engine, one.model, repr(sorted(one.settings.items(), key=str))) for one in launches}) > 1


def _short(launch: Launch) -> dict[str, object]:
    return {"engine": launch.engine, "model": launch.model, "settings": dict(launch.settings)}


FORMAT = Format(
    name="launch_script",
    kind="config",
    sniff=sniff,
    read=read,
    docs="What starts a server: shell scripts, a saved command line, Dockerfiles, systemd units. Gives "
    "engine, version (from the image), model, settings, environment, port.",
)
