"""The site: every page there, every link good, nothing of a record or a log obeyed by a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kb import knowledge
from kb.cli import main
from recommend.render.site import RunPage, pages

DEMO = Path(__file__).parent / "data" / "demo"
EVIL = "<script>alert(1)</script>' onclick='x"


class Read(HTMLParser):
    """Links, and the names of the elements and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.seen: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(f"@{name}" for name, _ in attrs)}
        self.links += [value or "" for name, value in attrs if name == "href"]


def test_every_record_and_run_has_its_page_and_every_link_leads_somewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, site = tmp_path / "kb.duckdb", tmp_path / "site"
    main_quiet(["ingest", str(DEMO), "--store", str(store), "--quiet"])
    main_quiet(["report", "-o", str(site), "--store", str(store)])
    assert "index.html" in capsys.readouterr().err
    files = sorted(site.rglob("*.html"))
    names = {path.stem for path in site.glob("records/*.html")}
    assert names == {record["id"] for record in knowledge.load().records}
    runs = list(site.glob("runs/*.html"))
    assert len(runs) >= 4
    for path in files:
        for link in Read(path.read_text(encoding="utf-8")).links:
            if not link.startswith(("https://", "http://")):
                assert (path.parent / link).exists(), f"{path}: {link}"
    story = (site / "records" / "sm120-moe-trtllm-gen.html").read_text(encoding="utf-8")
    assert "https://github.com/flashinfer-ai/flashinfer/issues/2045" in story
    assert "moe = trtllm-gen" in story


def test_texts_stay_texts() -> None:
    record = dict(knowledge.load().records[0])
    evidence = {"ref": EVIL, "kind": "report", "side": "against", "date": EVIL, "url": "javascript:alert(1)"}
    hostile = {
        **record,
        "title": EVIL,
        "cause": EVIL,
        "aliases": [EVIL],
        "evidence": [evidence],
        "outcomes": [{"effect": EVIL, "stage": EVIL, "text": EVIL}],
    }
    run = RunPage("run:../../<b>", [EVIL] * 3, [EVIL])
    prose = {record["id"]: f"{EVIL}\n\n[x](javascript:alert(1))\n\n<img src=x onerror=alert(1)>"}
    for name, text in pages([hostile], prose, [run], ["a", "b", EVIL]):
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)
        seen = Read(text)
        assert not seen.seen & {"@onclick", "@onerror", "img", "b"}
        assert not [link for link in seen.links if link.startswith("javascript")]
        assert text.count("<script") == (1 if name in ("index.html", "runs.html") else 0)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as stopped:
        main(["report", "-o", str(tmp_path / "file" / "site"), "--store", str(tmp_path / "none.duckdb")])
    assert stopped.value.code == 2


def main_quiet(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
