from __future__ import annotations

import pkgutil
import subprocess
import sys

import analytics

FORBIDDEN = ("keys", "codec", "camera", "forensics", "torch", "ultralytics")


def test_importing_every_module_of_analytics_brings_in_no_key_and_no_heavy_package() -> None:
    modules = [f"analytics.{module.name}" for module in pkgutil.iter_modules(analytics.__path__)]
    script = "\n".join(
        [
            "import sys",
            *(f"import {module}" for module in modules),
            f"bad = sorted(m for m in sys.modules if m.partition('.')[0] in {FORBIDDEN!r})",
            "print(bad)",
        ]
    )
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert len(modules) > 10
    assert output.stdout.strip() == "[]"


def test_the_package_itself_loads_no_run_time() -> None:
    heavy = ("onnxruntime", "av", "aiortc", "cv2")
    script = f"import sys, analytics; print([m for m in {heavy!r} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert output.stdout.strip() == "[]"
