"""Programs that need an interpreter of their own."""

import os
import subprocess
import sys


def run(code, *arguments, **environment):
    """The finished process of a program, which must not fail: `stdout` and `stderr` are text."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done
