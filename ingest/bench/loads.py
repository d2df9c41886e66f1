"""Loads as people write them into names: "1k/1k", "8192-in-1024-out", "1024x128".

Owns lengths of prompts and answers that stand in one word. Must not know where such a word was found.
"""

from __future__ import annotations

import re

LENGTHS = ("input_len", "output_len")
_COUNT = r"(\d{1,7}(?:\.\d)?)(k?)"
_PLAIN = rf"{_COUNT}(?:\s*[/x×→]\s*|,\s+){_COUNT}|{_COUNT}(?<=k){_COUNT}(?<=k)"  # "1k/1k", "1024x128", "1k8k"
_NAMED = (  # "in1024_out128", "8192-in-1024-out"
    rf"(?:isl|in(?:put)?|prefill|prompt)[ =:_-]*{_COUNT}(?: tok(?:en)?s?)?[ ,/_-]*"
    rf"(?:osl|out(?:put)?|decode|gen(?:eration)?)[ =:_-]*{_COUNT}"
    rf"|{_COUNT}[ _-]?in(?:put)?[ ,/+_-]*{_COUNT}[ _-]?out(?:put)?"
    rf"|(?:isl|in(?:put)?)\s*/\s*(?:osl|out(?:put)?)[ =:]+{_COUNT}\s*/\s*{_COUNT}"
)
_PAIR = re.compile(rf"(?:{_PLAIN}|{_NAMED})(?: tok(?:en)?s?)?", re.IGNORECASE)
_WITHIN = re.compile(rf"(?<![\w./])(?:{_NAMED}|{_COUNT}(?<=k)\s*/\s*{_COUNT}(?<=k))(?![\w./])", re.IGNORECASE)
_WITH_K = re.compile(r"[~≈]?\s?(\d{1,4}(?:\.\d)?) ?([kK])(?:i|\b)(?!\s*[/x×→-]\s*\d)")
_LEAST_TRIPLE = 24
_SHORTEST = 16  # what is shorter on both sides is a share or a count of things


def lengths(text: str) -> dict[str, int]:
    """Input and output length of a name that is nothing but both of them; empty where it is not."""
    found = _PAIR.fullmatch(text.strip().strip("()[]"))
    return _both(found) if found else {}


def lengths_in(text: str) -> dict[str, int]:
    """Both lengths where a text holds one such pair, spelt out: "Results (8k/1k)", "ISL 512 OSL 64"."""
    told = {tuple(_both(found).items()) for found in _WITHIN.finditer(text[:300])}
    return dict(told.pop()) if len(told) == 1 else {}


def lengths_of_test(name: str) -> dict[str, int]:
    """Both lengths that a test's name holds as one of its words: "short-512x256-c8"."""
    if re.match(r"(?i)(?:tile|block|grid|shape)\b|\w+ (?:tile|block|grid|shape)\b", name):
        return {}
    words = [name, *name.split(" / "), *re.split(r"[\s_-]+", name)]
    return next((told for word in words if (told := lengths(word))), {}) or lengths_in(name)


def _both(found: re.Match[str]) -> dict[str, int]:
    told = [one for one in found.groups() if one is not None]
    both = [tokens(told[0], told[1]), tokens(told[2], told[3])]
    counted = re.search(r"\s[x×]|[x×]\s", found[0]) is not None and min(both) < _SHORTEST  # "3090 ×2"
    return dict(zip(LENGTHS, both, strict=True)) if max(both) >= _SHORTEST and not counted else {}


def tokens(number: str, unit: str) -> int:
    """A length with its "k": 1024 where the number is one that people double up to ("8k", "96k").

    It is 1000 where the number is round in tens or is rounded itself ("10k", "131k").
    """
    value = float(number)
    return int(value * (_of_doubles(value) if unit else 1))


def _of_doubles(value: float) -> int:
    """What "k" stands for after a number: 1024 after 1, 2, 4 … and 24, 48, 96 …, else 1000."""
    whole = int(value) if value.is_integer() else 0
    odd = whole // (whole & -whole) if whole else 0
    return 1024 if odd == 1 or (odd == 3 and whole >= _LEAST_TRIPLE) else 1000


def count(text: str) -> int | None:
    """The length that a cell tells with its "k" ("8k", "128K tokens"), by the same rule; None without one."""
    found = _WITH_K.match(text.strip())
    return tokens(found[1], found[2]) if found else None
