"""The subscriber's example in docs/streams.md runs as it stands."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from tests.support.serving import serving
from tests.support.stand_in import StandInCamera

DOC = Path(__file__).parent.parent / "docs" / "streams.md"


async def test_the_example_subscribes(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 16
    script = tmp_path / "example.py"
    script.write_text(code)
    with StandInCamera(width=320, height=180) as camera:
        async with serving(camera) as server:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(script),
                server.whep,
                "12",
                stdout=asyncio.subprocess.PIPE,
                env={"PYTHONPATH": str(DOC.parent.parent), "PATH": ""},
            )
            out, _ = await asyncio.wait_for(process.communicate(), 60)
    lines = out.decode().splitlines()
    assert process.returncode == 0
    assert len(lines) == 12
    assert lines[0].startswith("0 ")
    assert lines[0].endswith("True False")
