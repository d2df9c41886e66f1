"""The words stay small, quick to load, and free of heavy imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import kb.vocab

FOLDER = Path(kb.vocab.__file__).parent
HEAVY = {
    "duckdb",
    "pydantic",
    "numpy",
    "sklearn",
    "rich",
    "markdown_it",
    "yaml",
    "packaging",
    "difflib",
    "typer",
}
ASK = """
import json, sys
from kb.vocab import engines, gates, gpus, models, options
launch = engines.parse_command(
    "sglang serve --model-path x/GLM-5-NVFP4 --tp 8 --moe-runner-backend flashinfer_trtllm".split()
)
model, gpu = models.find_model(launch.model), gpus.find_gpu("NVIDIA GeForce RTX 5090")
engines.roles_of(launch.engine, launch.version, launch.settings, launch.environment, gpu.arch, "nvfp4", model)
gates.default_roles(launch.engine, launch.version, gpu.arch, model, "nvfp4", launch.settings)
options.unknown_flags(launch.engine, launch.version, launch.flags)
print(json.dumps([sorted(sys.modules), options.catalog.cache_info().currsize]))
"""


def test_a_question_loads_one_catalog_and_nothing_heavy():
    out = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    modules, catalogs = json.loads(out.stdout)
    assert not HEAVY & set(modules)
    assert catalogs == 1


def test_data_stays_small():
    sizes = [path.stat().st_size for path in FOLDER.rglob("*.json")]
    assert sum(sizes) < 6_000_000
    assert max(sizes) < 600_000


def test_every_data_file_is_json_with_words_about_it():
    for path in FOLDER.rglob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        assert data, path
