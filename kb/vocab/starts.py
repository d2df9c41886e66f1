"""Where an engine starts in a command: programs, modules, container images, shells around them.

Owns the recognition of launch commands and of shell text. Must not read the engine's own flags
(``kb.vocab.commands``) and must not run anything; text that is no shell gives no command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kb.vocab.dialects import dialect

_ASSIGNMENT = r"(?s)([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z"
_IMAGE_VERSION = r":v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc|dev)\d+)*|b\d{3,6})"
_PINNED = r"(?:^|/)(sglang|vllm|tensorrt[-_]llm)(?:\[[^\]]*\])?(?:==|@)([\w.+]+)\Z"
_OWN_IMAGE = (
    r"(?:^|/)(?:vllm|sglang|tensorrt-?llm(?:/release)?|text-generation-inference|lmdeploy|ollama|llama\.?cpp)"
    r"(?:-(?:openai|rocm|cpu|cuda|gpu|tpu|hpu|xpu|npu|ascend|neuron|dev|nightly|server|router|release|repo))*:"
)
_CONTAINERS = ("docker", "podman", "nerdctl", "singularity", "apptainer")
_PROMPT = r"^\s*(?:\$|>)\s+"
_SHELL_PARTS = (  # compiled on first use: only shell text needs it
    r"""(?P<quoted>'[^']*'|"(?:\\.|[^"\\])*")|(?P<comment>(?<!\S)\#[^\n]*)|(?P<continued>\\[ \t]*\r?\n)"""
    r"""|(?P<escaped>\\.)|(?P<name><[A-Za-z][\w./-]*>)|(?P<redirect>(?<!\S)(?:\d?>&\d|\d?>>?[ \t]*[^\s;|&]+"""
    r"""|&>>?[ \t]*\S+|<[ \t]*[^\s<;|&]+))|(?P<end>\r?\n|\x00)"""
)
_ENV_FLAGS = ("-e", "--env")
SHELLS = ("bash", "sh", "zsh", "dash", "/bin/bash", "/bin/sh", "/usr/bin/bash")
_MODULES = {
    "sglang.launch_server": "sglang",
    "sglang.srt.entrypoints.http_server": "sglang",
    "sglang.cli.main": "sglang",
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "tensorrt_llm.commands.serve": "tensorrt-llm",
    # Dynamo's workers take the engine's own flags.
    "dynamo.sglang": "sglang",
    "dynamo.vllm": "vllm",
    "llama_cpp.server": "llama.cpp",
}
_TRTLLM_PARTS = ("serve", "disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve")
_PROGRAMS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trtllm-serve": "tensorrt-llm",
    "llama-server": "llama.cpp",
    "llama-server.exe": "llama.cpp",
    "llama-cli": "llama.cpp",
    "llama-bench": "llama.cpp",
}


class Start(NamedTuple):
    """Where the engine's own arguments begin in a command."""

    at: int
    engine: str | None = None
    version: str | None = None


def unwrap_shell(words: list[str]) -> list[str]:
    """The inner command of ``bash -c '…'``; the words before it stay, for their assignments."""
    for at, word in enumerate(words[:-1]):
        if word in SHELLS and re.fullmatch(r"-\w*c", words[at + 1]) and at + 2 < len(words):
            inner = split_commands(words[at + 2])
            servers = [one for one in inner if find_engine(one).engine]
            return words[:at] + (servers or inner or [[]])[-1]
    return words


def find_engine(words: Sequence[str]) -> Start:
    """Where the first engine program (or an image that starts one) ends, with the version its words tell."""
    version: str | None = None
    image: Start | None = None
    for at, word in enumerate(words):
        pinned = re.search(_PINNED, word)
        version = pinned[2] if pinned else version
        engine, length = _program(words, at)
        if at and words[at - 1] == "--entrypoint" and (engine or word in _PROGRAMS):
            return _behind_image(words, at, engine or _PROGRAMS[word], version)
        if engine:
            return Start(at + length, engine, version or (image.version if image else None))
        found = _image(word)
        if found and at and _is_container(words[:at]):
            image = Start(at + 1, found, version_of_image(word))
    if image and dialect(image.engine or "").get("image_starts_server"):
        return image
    return Start(len(words))


def _behind_image(words: Sequence[str], at: int, engine: str, version: str | None) -> Start:
    """A container's own entry point: its arguments stand behind the image, perhaps after ``serve``."""
    for place in range(at + 1, len(words)):
        before = words[place - 1]
        is_value = before.startswith("-") and "=" not in before and place > at + 1
        if not words[place].startswith("-") and not is_value:
            behind = place + 1 + (words[place + 1 : place + 2] == ["serve"])
            return Start(behind, engine, version or version_of_image(words[place]))
    return Start(len(words), engine, version)


def _program(words: Sequence[str], at: int) -> tuple[str | None, int]:
    """The engine whose program stands at a place, and how many words belong to the program."""
    word = words[at]
    name = re.split(r"[/\\]", word)[-1]
    following = words[at + 1] if at + 1 < len(words) else ""
    if word == "-m" and following in _MODULES:
        return _MODULES[following], 2 + (words[at + 2 : at + 3] != [] and words[at + 2] in _TRTLLM_PARTS)
    if re.search(r"sglang/(?:srt/)?launch_server\.py\Z", word) or word == "sglang.launch_server":
        return "sglang", 1
    if name == "api_server.py" and "vllm" in word:
        return "vllm", 1
    if name == "trtllm-serve":
        return "tensorrt-llm", 1 + (following in _TRTLLM_PARTS)
    if name in ("vllm", "sglang"):
        return (name, 2) if following == "serve" else (None, 0)
    return (_PROGRAMS[name], 1) if name in _PROGRAMS and name != following else (None, 0)


def version_of_image(word: str) -> str | None:
    """The engine's version that an image's tag is; an image called after more has a version of its own."""
    tag = re.search(_IMAGE_VERSION, word)
    return tag[1] if tag and is_own_image(word) else None


def is_own_image(word: str) -> bool:
    """Whether an image is called as an engine's own, on whatever registry."""
    name = word.partition("@")[0]
    return re.search(_OWN_IMAGE, name[: name.rfind(":")] + ":") is not None


def _image(word: str) -> str | None:
    for engine in ("sglang", "vllm", "tensorrt-llm", "llama.cpp"):
        if any(re.search(pattern, word) for pattern in dialect(engine)["images"]):
            return engine
    return None


def _is_container(before: Sequence[str]) -> bool:
    """Whether the words before an image start a container from it (a mere ``docker pull`` does not)."""
    names = [word.rsplit("/", 1)[-1] for word in before]
    return any(name in _CONTAINERS for name in names) and any(word in ("run", "create") for word in before)


def assignments(words: Sequence[str]) -> dict[str, str]:
    """Environment assignments before a program: ``K=V`` words and a container's ``-e K=V``."""
    found = {}
    for at, word in enumerate(words):
        previous = words[at - 1] if at else ""
        text = word.partition("=")[2] if word.startswith("--env=") else word
        assigned = re.match(_ASSIGNMENT, text)
        if assigned and (
            previous in _ENV_FLAGS or word.startswith("--env=") or not previous.startswith("--")
        ):
            found[assigned[1]] = assigned[2]
    return found


def without_assignments(words: Sequence[str]) -> list[str]:
    """The words after leading ``K=V`` words."""
    at = 0
    while at < len(words) and re.match(_ASSIGNMENT, words[at]):
        at += 1
    return list(words[at:])


def split_commands(text: str) -> list[list[str]]:
    """Simple commands of a shell text as words; a line that cannot be split is left out.

    Comments, prompts, continuations and redirections are taken off; ``<NAME>`` stays a word.
    """
    return [words for _, words in numbered_commands(text)]


def numbered_commands(text: str) -> list[tuple[int, list[str]]]:
    """The commands of ``split_commands``, each with the line (from 1) on which it begins."""
    commands: list[tuple[int, list[str]]] = []
    for number, line in _logical_lines(text):
        try:
            lexer = shlex.shlex(re.sub(_PROMPT, "", line), posix=True, punctuation_chars=";&|()")
            lexer.whitespace_split, lexer.commenters = True, ""
            commands += [(number, words) for words in _split_at_operators(list(lexer)) if words]
        except ValueError:
            continue
    return commands


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, text) for each line of shell, continued lines joined."""
    parts: list[str] = []
    at, first, number = 0, 0, 1
    for token in re.finditer(_SHELL_PARTS, text, flags=re.DOTALL):
        parts.append(text[at : token.start()])
        at = token.end()
        if token.lastgroup != "end":
            parts.append(_plain_token(token))
            continue
        yield number, "".join(parts)
        number, first, parts = number + text.count("\n", first, at), at, []
    yield number, "".join(parts) + text[at:]


def _plain_token(token: re.Match[str]) -> str:
    kind, word = token.lastgroup, token[0]
    if kind in ("quoted", "escaped"):
        return word
    if kind == "name":
        return f"\\<{word[1:-1]}\\>"
    return " "


def _split_at_operators(words: Sequence[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if re.fullmatch(r"[;&|()]+", word):
            commands.append([])
        elif word.strip():
            commands[-1].append(word)
    return commands


def with_arrays(text: str) -> str:
    """Shell text with ``"${NAME[@]}"`` replaced by what ``NAME=(…)`` and ``NAME+=(…)`` put in it."""
    if "=(" not in text or "[@]" not in text:
        return text
    held: dict[str, list[str]] = {}

    def take(found: re.Match[str]) -> str:
        try:
            words = shlex.split(found[3], comments=True)
        except ValueError:
            return found[0]
        held[found[1]] = (held.get(found[1], []) if found[2] else []) + words
        return "\n" * found[0].count("\n")

    plain = re.sub(
        r"^[ \t]*(?:local |readonly |declare -a )?([A-Za-z_]\w*)(\+?)=\(([^()]*)\)",
        take,
        text,
        flags=re.MULTILINE,
    )
    return re.sub(
        r'"\$\{(\w+)\[[@*]\]\}"',
        lambda found: shlex.join(held[found[1]]) if found[1] in held else found[0],
        plain,
    )


def exports(words: Sequence[str]) -> dict[str, str] | None:
    """The variables that a command only assigns, or ``None`` for a real command."""
    if not words:
        return None
    rest = words[1:] if words[0] in ("export", "set", "declare", "ENV") else words
    pairs = [re.match(_ASSIGNMENT, word) for word in rest]
    if not all(pairs) or not rest:
        return None
    return {one[1]: one[2] for one in pairs if one}


def expand(word: str, variables: Mapping[str, str]) -> str:
    """A word with ``$NAME`` and ``${NAME:-default}`` replaced where the variable is known."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        return variables.get(name) or (found[2] or found[0])

    return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)", value, word)
