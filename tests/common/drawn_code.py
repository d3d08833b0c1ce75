"""Functions from drawn text, with lines that `inspect` and tracebacks find."""

import linecache

import numpy as np


def function_of(text):
    """The function `drawn` that the text defines."""
    name = f"<drawn {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    namespace = {"np": np}
    exec(compile(text, name, "exec"), namespace)
    return namespace["drawn"]
