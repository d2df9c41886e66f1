"""Answers of a server to fixed prompts, as its API returned them: one response, a list, or JSON lines.

Owns the shapes of these APIs (OpenAI completions and chat, SGLang ``/generate``, TGI, llama.cpp) and the
digest in ``extra["probe"]``: ``answers``, each with ``prompt_key`` (its hash), ``prompt`` (start),
``temperature``, ``tokens`` (ids, or texts where ids are missing), ``logprobs`` (nats), ``runner_up_gap``
(nats to the second best token, where recorded), ``text`` (start), ``finish``; ``case``, ``ok`` and ``detail``
of a checker that wrote its verdict beside it; ``broken`` (why, or absent), ``repeats`` (what, or absent:
alone no sign of a fault).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.formats import Format, Unreadable
from ingest.launches import model_of
from ingest.probes import broken, repeats
from ingest.sources import Source
from ingest.traces import line_count
from kb.model import Backend, Experiment, Measurement, Problem, Reading

_LARGEST = 64 << 20
_KEPT_TOKENS = 512
_FINGERPRINT = re.compile(r"^(vllm|sglang|trtllm)-(\d+(?:\.\d+)+(?:[.+]?[a-z]\w*)*)(?:-.*)?$")
_BUILD = re.compile(r"^(b\d{3,6})-[0-9a-f]{7,12}$")  # of llama.cpp
_TIMINGS = {"prompt_per_second": "input_tok_s", "predicted_per_second": "output_tok_s"}
_COUNTS = {"prompt_n": "input_len", "predicted_n": "output_len"}
_TEXT = re.compile(r'"(?:content|text|reasoning)"\s*:\s*"((?:[^"\\]|\\.)*)')
_RESPONSE = re.compile(
    r'"object"\s*:\s*"(?:text_completion|chat\.completion)"|"output_token_logprobs"|"meta_info"\s*:|"output_ids"\s*:'
)


_TIMED = re.compile(r'"(?:\w*tok(?:en)?s?_?(?:per_)?s(?:ec)?|ttft\w*|\w*throughput\w*)"\s*:\s*[\d.]')


def sniff(source: Source) -> float:
    """A response object of one of the APIs near the start of a JSON text; timed ones are a benchmark's."""
    head = source.head.lstrip("\ufeff \t\r\n")
    if head[:1] not in ("{", "["):
        return 0.0
    near = head[:6000]
    if _RESPONSE.search(near) and ('"choices"' in near or '"meta_info"' in head or '"output_ids"' in near):
        return 0.96 if '"request"' in near or '"choices"' in near else 0.85
    if len(set(_TIMED.findall(near))) > 1:
        return 0.0
    if '"ok"' in near and '"case"' in near and ('"required_terms"' in near or '"payload"' in near):
        return 0.9
    paired = '"request"' in near and '"response"' in near and ('"prompt"' in near or '"text"' in near)
    return 0.7 if paired else 0.0


def read(source: Source) -> Reading:
    """A digest of every answer."""
    text = source.text[:_LARGEST]
    items, damage = _items(text)
    items = items if any(True for item in items for _ in _answers(item)) else list(_nested(items, {}))
    answers = [answer for item in items for answer in _answers(item)]
    if not answers:
        raise Unreadable(damage or "no answer of a server was found in it")
    wrong = [one["broken"] for one in answers if "broken" in one]
    return Reading(
        path=str(source.path),
        format="probe",
        kind="probe",
        experiments=_experiments(items),
        status="partial" if damage else "parsed",
        lines=line_count(text.count("\n") + 1),
        problems=(Problem(line=None, what=damage),) if damage else (),
        extra={"probe": {"answers": answers, "broken": len(wrong)}},
    )


def _items(text: str) -> tuple[list[Any], str | None]:
    plain = text.lstrip("\ufeff")
    try:
        whole = json.loads(plain)
        return (whole if isinstance(whole, list) else [whole]), None
    except (ValueError, RecursionError) as error:
        lines = [_line(line) for line in plain.split("\n") if line.strip()]
        found = [one for one in lines if isinstance(one, dict)]
        if found and len(found) == len(lines):
            return found, None
        return found or _salvaged(plain), f"the JSON is damaged or cut: {error}"


def _salvaged(text: str) -> list[Any]:
    """The text of a single answer whose JSON was cut, by its key alone."""
    cut = _TEXT.search(text)
    return [{"choices": [{"text": cut[1].replace("\\n", "\n").replace('\\"', '"')}]}] if cut else []


_DEEPEST = 8  # levels of objects and lists around answers


def _nested(value: Any, around: Mapping[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Answers somewhere inside a runner's own document, each with the prompt beside or above it."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from _nested(one, around, depth + 1)
    elif isinstance(value, Mapping):
        said = {key: one for key, one in value.items() if key in _BESIDE}
        told = {**around, **said}
        if _is_response(value):
            yield told | {"response": value}
            return
        for key, one in value.items():
            if key not in _BESIDE:
                yield from _nested(one, told, depth + 1)


_BESIDE = ("prompt", "messages", "request", "payload", "case", "ok", "detail")


def _is_response(value: Mapping[str, Any]) -> bool:
    choices = value.get("choices")
    if isinstance(choices, list):
        return any(isinstance(one, Mapping) and ("message" in one or "text" in one) for one in choices)
    return isinstance(value.get("meta_info"), Mapping) or isinstance(value.get("output_ids"), list)


def _line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _answers(item: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(item, Mapping):
        return
    request: Mapping[str, Any] = next(
        (item[key] for key in ("request", "payload") if isinstance(item.get(key), Mapping)), {}
    )
    response = item.get("response") if isinstance(item.get("response"), Mapping | list) else item
    for one in response if isinstance(response, list) else [response]:
        if isinstance(one, Mapping):
            yield from _of_response(request or {}, one, item)


def _of_response(
    request: Mapping[str, Any], response: Mapping[str, Any], item: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    choices = response.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, Mapping):
                yield _digest(request, item, _of_choice(choice))
    elif "meta_info" in response or "output_ids" in response:
        yield _digest(request, item, _of_sglang(response))
    else:
        texts = (response.get(key) for key in ("generated_text", "content", "assistant_text"))
        text = next((one for one in texts if isinstance(one, str)), None)
        if text is not None or isinstance(item.get("ok"), bool):
            yield _digest(request, item, {"text": text, "finish": response.get("finish_reason")})


def _of_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    text = choice.get("text")
    if isinstance(message, Mapping):
        text = message.get("content") or message.get("reasoning") or message.get("reasoning_content")
    found: dict[str, Any] = {"text": text, "finish": choice.get("finish_reason")}
    told = choice.get("logprobs")
    if isinstance(told, Mapping) and isinstance(told.get("content"), list):
        rows = [row for row in told["content"] if isinstance(row, Mapping)]
        found |= {
            "tokens": [row.get("token") for row in rows],
            "logprobs": [row.get("logprob") for row in rows],
        }
        found["runner_up_gap"] = [_chat_gap(row) for row in rows]
    elif isinstance(told, Mapping):
        found |= {"tokens": told.get("tokens"), "logprobs": told.get("token_logprobs")}
        found["runner_up_gap"] = [_gap(row) for row in _list(told.get("top_logprobs")) or ()]
    if isinstance(choice.get("token_ids"), list):
        found["tokens"] = choice["token_ids"]
    return found


def _of_sglang(response: Mapping[str, Any]) -> dict[str, Any]:
    meta = response.get("meta_info")
    meta = meta if isinstance(meta, Mapping) else {}
    told = _list(meta.get("output_token_logprobs")) or ()
    rows = [row for row in told if isinstance(row, list) and len(row) >= 2]
    finish = meta.get("finish_reason")
    tops = _list(meta.get("output_top_logprobs")) or ()
    return {
        "text": response.get("text"),
        "finish": finish.get("type") if isinstance(finish, Mapping) else finish,
        "tokens": response.get("output_ids") or [row[1] for row in rows],
        "logprobs": [row[0] for row in rows],
        "runner_up_gap": [_pair_gap(top) for top in tops],
    }


def _digest(request: Mapping[str, Any], item: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    prompt = _prompt(request) or _prompt(item)
    sampling = request.get("sampling_params")
    given = {**request, **sampling} if isinstance(sampling, Mapping) else request
    text = found.get("text") if isinstance(found.get("text"), str) else None
    answer = {
        "prompt_key": hashlib.blake2b(prompt.encode(), digest_size=8).hexdigest() if prompt else None,
        "prompt": prompt[:80] if prompt else None,
        "temperature": given.get("temperature"),
        "text": text[:200] if text else text,
        "finish": found.get("finish"),
        "case": _short(item.get("case")),
        "ok": item["ok"] if isinstance(item.get("ok"), bool) else None,
        "detail": _short(item.get("detail")),
        "tokens": _list(found.get("tokens")),
        "logprobs": [_rounded(one) for one in _list(found.get("logprobs")) or ()] or None,
        "runner_up_gap": _useful([_rounded(one) for one in found.get("runner_up_gap") or ()]),
    }
    whole = answer | {"text": text}
    answer |= {"broken": broken(whole), "repeats": repeats(whole), "logprobs": _finite(answer["logprobs"])}
    return {key: value for key, value in answer.items() if value is not None}


def _short(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _prompt(request: Mapping[str, Any]) -> str | None:
    for key in ("prompt", "text", "inputs", "input"):
        if isinstance(request.get(key), str) and ("choices" not in request or key == "prompt"):
            return str(request[key])
    messages = request.get("messages")
    return json.dumps(messages, ensure_ascii=False) if isinstance(messages, list) else None


def _finite(values: Any) -> list[float | None] | None:
    """The same with NaN and infinities as None: what is stored must be JSON."""
    told = values if isinstance(values, list) else []
    return [one if isinstance(one, int | float) and math.isfinite(one) else None for one in told] or None


def _list(value: Any) -> list[Any] | None:
    return value[:_KEPT_TOKENS] if isinstance(value, list) and value else None


def _useful(gaps: list[Any]) -> list[Any] | None:
    return gaps[:_KEPT_TOKENS] if any(one is not None for one in gaps) else None


def _rounded(value: Any) -> float | None:
    return round(value, 4) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _gap(row: Any) -> float | None:
    values = row.values() if isinstance(row, dict) else _list(row) or ()
    best = sorted((one for one in values if isinstance(one, int | float)), reverse=True)
    return best[0] - best[1] if len(best) > 1 else None


def _chat_gap(row: Mapping[str, Any]) -> float | None:
    top = row.get("top_logprobs")
    return (
        _gap([one.get("logprob") for one in top if isinstance(one, dict)]) if isinstance(top, list) else None
    )


def _pair_gap(top: Any) -> float | None:
    return _gap([one[0] for one in top if isinstance(one, list) and one]) if isinstance(top, list) else None


def _experiments(items: list[Any]) -> tuple[Experiment, ...]:
    """The engine that signed the answers, and the model's name where it is no mere alias."""
    names = (_model_name(item) for item in items if isinstance(item, Mapping))
    name = next((one for one in names if one and ("/" in one or one.endswith(".gguf"))), None)
    experiment = Experiment(backend=_backend(items), model=model_of(name), measurements=tuple(_timed(items)))
    return () if experiment == Experiment() else (experiment,)


def _timed(items: list[Any]) -> Iterator[Measurement]:
    """What llama.cpp says in an answer of the time that it took."""
    for item in items:
        response = item.get("response", item) if isinstance(item, Mapping) else None
        timings = response.get("timings") if isinstance(response, Mapping) else None
        told = timings if isinstance(timings, Mapping) else {}
        figures = {key: told[key] for key in (*_TIMINGS, *_COUNTS) if isinstance(told.get(key), int | float)}
        if _TIMINGS.keys() <= figures.keys():
            yield Measurement(
                workload={name: figures[key] for key, name in _COUNTS.items() if key in figures},
                metrics={name: float(figures[key]) for key, name in _TIMINGS.items()},
            )


def _model_name(item: Mapping[str, Any]) -> str | None:
    for inner in (item, item.get("request"), item.get("payload"), item.get("response")):
        if isinstance(inner, Mapping) and isinstance(inner.get("model"), str):
            return str(inner["model"])
    return None


def _backend(items: list[Any]) -> Backend:
    """The engine where the server signed its answers (``system_fingerprint``)."""
    for item in items:
        response = item.get("response", item) if isinstance(item, Mapping) else None
        print_ = response.get("system_fingerprint") if isinstance(response, Mapping) else None
        signed = _FINGERPRINT.match(print_) if isinstance(print_, str) else None
        if signed:
            engine = "tensorrt-llm" if signed[1] == "trtllm" else signed[1]
            return Backend(engine=engine, engine_version=signed[2])
        built = _BUILD.match(print_) if isinstance(print_, str) else None
        if built and isinstance(response, Mapping) and "timings" in response:
            return Backend(engine="llama.cpp", engine_version=built[1])
    return Backend()


FORMAT = Format(
    name="probe",
    kind="probe",
    sniff=sniff,
    read=read,
    version=3,
    docs="Answers to fixed prompts as a server's API returned them (OpenAI completions and chat, SGLang "
    "`/generate`, TGI), alone, in a list beside their requests, or as JSON lines: tokens and "
    "log-probabilities to compare backends by; broken output (one token over and over) is told.",
)
