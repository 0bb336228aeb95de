"""The report of a case as one HTML page that needs nothing else and prints well (A4 and Letter)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from base.documents import is_plain_text
from forensics.canonical import JsonObject
from forensics.case_report import CaseReport, software
from forensics.report import TOOL

_STYLE = """
@page { size: A4; margin: 18mm 15mm 20mm; }
@page { @bottom-right { content: counter(page) " / " counter(pages); } }
:root { color-scheme: light; }
body { font: 10pt/1.4 system-ui, sans-serif; color: #111; background: #fff; }
body { max-width: 190mm; margin: 8mm auto; }
h1 { font-size: 18pt; margin: 0 0 2mm; }
h2 { font-size: 13pt; margin: 8mm 0 2mm; border-bottom: 1px solid #999; }
h3 { font-size: 11pt; margin: 5mm 0 1mm; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; font-weight: 600; }
th, td { border: 1px solid #bbb; padding: 1mm 2mm; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; } .word { white-space: nowrap; }
th { background: #eee; font-weight: 600; } thead { display: table-header-group; }
tr, .keep { break-inside: avoid; } .custody { break-before: page; }
code { font: 8pt ui-monospace, monospace; overflow-wrap: anywhere; }
.verdict { display: inline-block; border: 2px solid #111; padding: 1mm 4mm; font: 700 13pt system-ui; }
.verdict.authentic { border-color: #17632b; color: #17632b; }
.verdict.gaps { border-color: #8a5a00; color: #8a5a00; }
.verdict.tampered { border-color: #a11; color: #a11; } .empty { color: #555; font-style: italic; }
.sign td { height: 14mm; } .small { font-size: 8.5pt; color: #444; }
@media print { body { margin: 0; max-width: none; } a { color: inherit; text-decoration: none; } }
"""

_SHORT = 14  # such words stay whole

_MEANING = {
    "authentic": "everything between the first and the last picture is what the camera signed",
    "gaps": "what is here is what the camera signed; something is missing",
    "tampered": "something is here that the camera did not make, or not so, or not there",
    "unsigned": "no picture carries a signature",
    "unverifiable": "the signatures could not be checked",
}


def case_html(report: CaseReport) -> bytes:
    """Write the page. Every text from outside is escaped; it holds no script and loads nothing."""
    verdict = "nothing judged" if report.verdict is None else report.verdict.value
    body = [
        f"<h1>Case {_text(report.case or 'without a number')}</h1>",
        f'<p><span class="verdict {verdict}">{_text(verdict.upper())}</span> '
        f"{_text(_MEANING.get(verdict, ''))}</p>",
        _facts(report),
        "<h2>Recordings</h2>",
        _recordings(report),
        *(_recording(report, number) for number in range(len(report.results))),
        "<h2>Between the recordings</h2>",
        _table(
            ("before", "after", "fits", "what"),
            ((j.before, j.after, "yes" if j.fits else "NO", j.text) for j in report.joints),
            "no camera has more than one recording here",
        ),
        "<h2>Outside of what was asked for</h2>",
        _table(("recording",), ((name,) for name in report.skipped), "none"),
        "<h2>Restored pictures</h2>",
        '<p class="empty">None: pictures restored by a network are never part of this bundle.</p>',
        _composed(report),
        "<h2>Tools</h2>",
        _table(("name", "version"), _versions(report), "none"),
        _custody(report),
    ]
    head = f"<title>Case {_text(report.case)}</title><style>{_STYLE}</style>"
    allowed = "default-src 'none'; style-src 'unsafe-inline'"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'
    page = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{policy}{head}</head><body>'
    return (page + "\n".join(body) + "</body></html>\n").encode()


def _text(value: object) -> str:
    """Escaped, and without what could turn the line around: people who hand in files choose their names."""
    text = "" if value is None else str(value)
    return escape("".join(char if is_plain_text(char) else "\ufffd" for char in text))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> str:
    lines = [f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows]
    if not lines:
        return f'<p class="empty">{_text(empty)}</p>'
    titles = "".join(f"<th>{_text(title)}</th>" for title in head)
    top = f"<thead><tr>{titles}</tr></thead>" if any(head) else ""
    return f"<table>{top}<tbody>{''.join(lines)}</tbody></table>"


def _cell(value: object) -> str:
    text = _text(value)
    is_hash = isinstance(value, str) and len(value) >= 32 and all(c in "0123456789abcdef" for c in value)
    if is_hash:
        return f"<code>{text}</code>"
    return f'<span class="word">{text}</span>' if 0 < len(text) <= _SHORT else text


def _facts(report: CaseReport) -> str:
    who = report.operator
    rows = [
        ("reason", report.reason or "none given"),
        ("range", f"{report.start or 'beginning'} to {report.end or 'end'}"),
        ("opened by", f"{who.get('user')} (uid {who.get('uid')}) on {who.get('host')}"),
        ("begun, finished", f"{report.started}, {report.finished}"),
        ("evidence only", "yes" if report.is_evidence else "no"),
        ("tool", TOOL),
        ("protector models", ", ".join(sorted({m for r in report.results for m in r.model_ids})) or "none"),
    ]
    return _table(("", ""), rows, "")


def _recordings(report: CaseReport) -> str:
    rows = (
        (
            r.stem,
            r.camera_id,
            " to ".join(r.span or ()),
            (r.verdict or "-").upper(),
            r.error or _outcome(r.is_complete),
        )
        for r in report.results
    )
    return _table(("recording", "camera", "captured", "verdict", "outcome"), rows, "none")


def _outcome(is_complete: bool) -> str:
    return "complete" if is_complete else "not complete"


def _recording(report: CaseReport, number: int) -> str:
    result = report.results[number]
    source, output = result.input or {}, result.output or {}
    rows: list[tuple[object, object]] = [
        ("handed over as", source.get("name")),
        ("bytes", source.get("bytes")),
        ("SHA-256", source.get("sha256")),
        (
            "segments",
            f"{result.num_segments}; opened {result.num_delivered}, not opened {result.num_withheld}",
        ),
        ("sealed as", ", ".join(result.sealed_modes) or "-"),
        ("video", output.get("name") or "none"),
        ("SHA-256 of the video", output.get("sha256")),
        *_region_rows(result.regions),
        *(
            (f"track {t.get('index')}, {t.get('kind')} {t.get('codec')}", t.get("sha256"))
            for t in result.tracks
        ),
        ("ledger entry", result.ledger_seq),
        ("its hash", result.ledger_hash),
        ("keys used", ", ".join(result.recipients) or "none"),
    ]
    notes = [*result.causes, *result.notes, *([result.error] if result.error else [])]
    listed = "".join(f"<li>{_text(note)}</li>" for note in notes) or '<li class="empty">nothing to note</li>'
    return (
        f'<div class="keep"><h3>{_text(result.stem)}</h3>{_table(("", ""), rows, "")}<ul>{listed}</ul></div>'
    )


def _region_rows(regions: JsonObject | None) -> list[tuple[object, object]]:
    if regions is None:
        return []
    tiles = regions.get("tiles")
    sealed = [("SHA-256 of what was sealed", tiles["sha256"])] if isinstance(tiles, dict) else []
    return [("regions", f"{regions.get('text')} ({regions.get('pictures')})"), *sealed]


def _composed(report: CaseReport) -> str:
    """Whether the videos are what the camera coded, or were put together for viewing."""
    composed = [result.stem for result in report.results if result.regions is not None and result.output]
    if not composed:
        return "<p>Every picture of the videos is one that the camera coded, bit for bit.</p>"
    return (
        f"<p><strong>Composed for viewing:</strong> {_text(', '.join(composed))}. There the original is "
        "sealed in regions. The video shows those that were opened over the protected picture, and was coded "
        "anew. What the camera sealed is in the file that ends in .tiles.mkv, a track for each region.</p>"
    )


def _versions(report: CaseReport) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for name, value in software().items():
        if isinstance(value, dict):
            rows += [(f"{name} {part}", number) for part, number in value.items()]
        else:
            rows.append((name, value))
    return [*rows, ("engine", f"{report.engine}, {report.jobs} at a time")]


def _custody(report: CaseReport) -> str:
    rows = (
        (step.get("time"), step.get("what"), step.get("name"), step.get("sha256"), step.get("detail"))
        for step in report.custody()
    )
    blank = "<td></td>" * 5
    signs = "".join(f'<tr class="sign">{blank}</tr>' for _ in range(4))
    return (
        '<section class="custody"><h2>Chain of custody</h2>'
        f"<p>Case {_text(report.case or '-')}. Originals were opened for reading only; all work was done on "
        "copies whose SHA-256 is given. Compare with <code>sha256sum -c SHA256SUMS</code>.</p>"
        + _table(("time (UTC)", "step", "file", "SHA-256", "remark"), rows, "no step was recorded")
        + "<h3>Handed over</h3><table><thead><tr><th>date, time</th><th>from (name, signature)</th>"
        "<th>to (name, signature)</th><th>purpose</th><th>SHA-256 of SHA256SUMS</th></tr></thead>"
        f'<tbody>{signs}</tbody></table><p class="small">{_text(TOOL)}. Protected video is pseudonymised '
        "personal data; opened video is personal data in the clear.</p></section>"
    )
