"""What ``recommend --json`` prints keeps its committed schema."""

import json
import math
from pathlib import Path

import jsonschema
import pytest

from kb.cli import main

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "docs" / "schemas" / "recommend.json").read_text(encoding="utf-8")
)
QUESTIONS = [
    ["--gpu", "sm120", "--model", "glm5-nvfp4"],
    ["--gpu", "h100", "--model", "glm5-nvfp4"],
    ["--gpu", "NVIDIA L40S", "--model", "llama-3.1-8b"],
    ["--gpu", "h200", "--model", "gpt-oss-120b", "--engine", "vllm==0.20.0", "--goal", "latency"],
    ["--gpu", "no-such-card", "--model", "no-such-model"],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_recommend_json_keeps_its_schema(question, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["recommend", "--json", "--store", str(tmp_path / "kb.duckdb"), *question])
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, SCHEMA)
    forecasts = [one for pick in answer["picks"] for one in (pick["predicted"], *pick["measured"]) if one]
    for one in forecasts:
        assert math.prod(row["factor"] for row in one["made_of"]) == pytest.approx(one["value"], rel=0.01)
    assert bool(forecasts) == (question[1] not in ("sm120", "no-such-card"))
