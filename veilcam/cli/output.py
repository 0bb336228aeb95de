"""What commands print: plain text for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

Advance = Callable[[float], None]
"""Called with the share done so far, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Output:
    """Standard output of one command run.

    With ``as_json`` nothing but JSON reaches standard output, so that it can be piped.
    """

    as_json: bool

    def say(self, text: str) -> None:
        """Print a line for people; silent in JSON mode."""
        if not self.as_json:
            print(text, flush=True)

    def result(self, document: Mapping[str, object]) -> None:
        """Print the command's result as one JSON document; silent otherwise."""
        if self.as_json:
            print(json.dumps(document, indent=2, sort_keys=False), flush=True)

    def event(self, document: Mapping[str, object]) -> None:
        """Print one JSON line at once (long-running commands); silent otherwise."""
        if self.as_json:
            print(json.dumps(document), flush=True)

    @contextmanager
    def progress(self, label: str) -> Iterator[Advance]:
        """Show a bar on standard error while the block runs, if that is a terminal."""
        if self.as_json or not sys.stderr.isatty():
            yield lambda _share: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=1.0)
            yield lambda share: bar.update(task, completed=min(max(share, 0.0), 1.0))


def table(rows: Mapping[str, object]) -> str:
    """Names and values in two aligned columns."""
    width = max((len(name) for name in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())
