"""Redaction: what must go, what must stay, and that doing it twice changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ingest.redact import redact, redact_reading, redact_value
from kb.model import Backend, Experiment, Failure, Outcome, Reading

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
token = st.text(ALPHABET, min_size=32, max_size=40)
around = st.text(max_size=60)

CARRIERS = [
    "hf_{}",
    "sk-{}",
    "sk-proj-{}",
    "ghp_{}",
    "Authorization: Bearer {}",
    "authorization: Basic {}",
    "--api-key {}",
    "--api-key={}",
    "api_key='{}'",
    '"api_key": "{}"',
    "HF_TOKEN={}",
    "HUGGING_FACE_HUB_TOKEN={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "OPENAI_API_KEY={}",
    "password={}",
    "https://user:{}@example.org/x",
    "x-api-key: {}",
    "/home/{}/models",
    "/Users/{}/models",
    "C:\\Users\\{}\\models",
]


@pytest.mark.parametrize("carrier", CARRIERS)
@given(secret=token, before=around, after=around)
def test_secrets_go(carrier: str, secret: str, before: str, after: str) -> None:
    assume(secret not in before + after)
    assert secret not in redact(f"{before} {carrier.format(secret)} {after}")


@given(st.one_of(st.text(max_size=300), st.sampled_from(CARRIERS).flatmap(lambda c: token.map(c.format))))
def test_twice_is_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_private_addresses_go(a: int, b: int, c: int) -> None:
    for address in (f"10.{a}.{b}.{c}", f"192.168.{b}.{c}", f"172.{16 + a % 16}.{b}.{c}"):
        assert address not in redact(f"tcp://{address}:5000 and {address}.")


@pytest.mark.parametrize(
    "text",
    [
        "server_args=ServerArgs(model_path='/models/x', api_key=None, port=30000, host='127.0.0.1')",
        "'api_key': None, 'hf_token': None, 'max_tokens': 128, 'eos_token': '</s>'",
        "max_total_num_tokens=812345, chunked_prefill_size=8192",
        "Decode batch, #running-req: 32, #token: 51234, token usage: 0.06",
        "tokenizer_path='example/Qwen', token usage: 0.06, #token: 4096",
        "Avg prompt throughput: 104.7 tokens/s, Running: 352 reqs",
        "flashinfer-python==0.6.8.post1 torch==2.11.0+cu130",
        "http://0.0.0.0:30000 and 127.0.0.1 and 192.0.2.2",
        "/root/.cache/vllm, /opt/engine/venv, /usr/local/cuda-13.0",
        "/home/ubuntu/models/x and /home/models/y",
        "`api_key` is required for this",
        "sk-learn and hf_hub",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_a_reading_is_redacted_but_keeps_its_path() -> None:
    failure = Failure(
        signature="unknown", text="token hf_" + "a" * 30, cause="in /home/jane/x", path="/home/jane/s.log"
    )
    backend = Backend(settings={"api_key": "short", "port": 1}, environment={"HF_TOKEN": "abc123"})
    reading = Reading(
        path="/home/jane/s.log",
        format="f",
        experiments=(Experiment(backend=backend, outcome=Outcome(failure=failure)),),
        extra={"env": [{"password": "p4ss"}]},
    )
    text = str(redact_reading(reading).experiments) + str(redact_reading(reading).extra)
    assert "hf_a" not in text
    assert "abc123" not in text
    assert "'short'" not in text
    assert "p4ss" not in text
    assert "jane/x" not in text
    assert redact_reading(reading).path == "/home/jane/s.log"
    assert redact_reading(redact_reading(reading)) == redact_reading(reading)


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text()), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_shape(value: object) -> None:
    once = redact_value(value)
    assert redact_value(once) == once
