"""``veilcam evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from evaluation.results import Part

SAMPLE = Path(__file__).parents[1] / "assets" / "sample.mp4"


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam evaluate --data data/ --out evaluation/",
        "veilcam evaluate --data data/ --weights run1/weights --out run1/evaluation --only utility,bandwidth",
        "veilcam evaluate --quick --out quick/",
    )
    app.command("evaluate", short_help="Measure the protector, attackers included.", epilog=epilog)(evaluate)


def evaluate(
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="Report, JSON and cache; run again to continue."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Labelled data (docs/evaluation.md). Only --quick works without."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Card and graphs to measure; the shipped ones if not given."),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Parts or groups: utility, privacy, recovery, bandwidth, speed, tradeoff."
        ),
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny amounts: shows that it works, not how well.")
    ] = False,
    crf: Annotated[float, typer.Option(min=0, max=51, help="x264's quality for the protected layer.")] = 23.0,
    probes: Annotated[int, typer.Option(min=2, help="Faces tried per size, at most.")] = 240,
    first_unseen: Annotated[
        int, typer.Option(min=0, help="People before this one (by name) may have been in training.")
    ] = 120,
    attack_minutes: Annotated[
        float, typer.Option(min=0.01, help="Training time of each attacker, on --threads threads.")
    ] = 10.0,
    clip_frames: Annotated[int, typer.Option(min=8, help="Consecutive frames taken of each clip.")] = 40,
    threads: Annotated[int, typer.Option(min=1, help="Of the protector, training and timing.")] = 1,
    detector: Annotated[
        list[str] | None, typer.Option(help="Measure this one too, as `veilcam detect` names it; repeat.")
    ] = None,
    strength: Annotated[
        str, typer.Option(metavar="NAME", help="Of the protector: light, standard, strong or maximum.")
    ] = "standard",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    show_clear: Annotated[
        bool,
        typer.Option("--show-clear", help="Clear faces and plates on the sheets: keep the report private."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure utility, privacy, recovery, bandwidth and speed; write report.html and results.json.

    Everything is measured after real x264. Finished parts are kept in OUT/cache and taken from there as long
    as weights, data, settings and the measuring code stay the same.
    """
    from base.errors import UsageError
    from evaluation import EvaluationSettings
    from evaluation import evaluate as run
    from evaluation.report import write_report

    if data is None and not quick:
        raise UsageError("evaluate: --data is needed (only --quick works without)")
    output = Output(as_json)
    reader = None
    detectors = tuple(detector or ())
    if data is None:
        from evaluation.sample import GlyphReader, make_sample

        data = make_sample(SAMPLE, out / "sample")
        reader, detectors = GlyphReader(), detectors or ("hog",)
        output.say("No --data: the shipped clip with drawn plates. This shows that it works, not how well.")
    settings = EvaluationSettings(
        data=data,
        out=out,
        weights=weights,
        only=tuple(name.strip() for name in only.split(",") if name.strip()),
        crf=crf,
        probes=min(probes, 12) if quick else probes,
        first_unseen=first_unseen,
        attack_minutes=min(attack_minutes, 0.2) if quick else attack_minutes,
        clip_frames=min(clip_frames, 16) if quick else clip_frames,
        threads=threads,
        seed=seed,
        show_clear=show_clear,
        quick=quick,
        detectors=detectors,
        strength=strength,
    )
    evaluation = run(settings, progress=_Lines(), reader=reader)
    paths = write_report(evaluation, out)
    for part in evaluation.parts:
        for line in _lines(part):
            output.say(line)
    output.say(f"\n{paths[1]}")
    output.result({"ok": True, "report": str(paths[1]), **evaluation.to_json()})


class _Lines:
    """Progress on standard error: a bar that redraws itself on a terminal, one line per step otherwise."""

    def __init__(self) -> None:
        import sys

        self._is_terminal = sys.stderr.isatty()
        self._last = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """See evaluation.context.Progress."""
        import sys

        if self._is_terminal:
            end = "\n" if done == total else ""
            print(f"\r\033[K{what} {done}/{total}", end=end, file=sys.stderr, flush=True)
        elif what != self._last:
            print(f"{what} ({total})", file=sys.stderr, flush=True)
        self._last = what


def _lines(part: Part) -> list[str]:
    if part.skipped:
        return [f"\n{part.name}: not measured: {part.skipped}"]
    found = [f"\n{part.name} ({part.seconds:.0f} s)"]
    for table in part.tables:
        found.append(f"  {table.title}")
        for row in table.rows:
            clear = "" if row.clear is None else f"  clear {row.clear:.4g}"
            chance = "" if row.chance is None else f"  chance {row.chance:.4g}"
            found.append(
                f"    {row.name:<58} {row.value:8.4g} [{row.low:.4g}, {row.high:.4g}]{clear}{chance}  "
                f"n={row.n}"
            )
    return found
