"""Runs the Python of a page: its blocks share their names, as they do for a reader.

A block is one of Python, or a cell that the site runs (`make docs`). An expression with a comment
behind it has the value that the comment shows. A block that imports a library which is not
installed is left out.
"""

import ast
import importlib.util
import re

BLOCK = re.compile(
    r"^```(?:python|\{code-cell\}[^\n]*)\n(?P<options>(?::[^\n]*\n)*)(?P<code>.*?)^```"
    r"|^\.\. code-block:: python\n\n(?P<indented>(?:   [^\n]*\n|\n)+)",
    re.DOTALL | re.MULTILINE,
)
SHOWN = re.compile(r"\s{2,}# (.+)$")


def blocks(text):
    """(code, the number of lines before it) of every block."""
    for match in BLOCK.finditer(text):
        kind = "code" if match["code"] is not None else "indented"
        code = re.sub(r"^   ", "", match[kind], flags=re.M) if kind == "indented" else match[kind]
        yield code, text.count("\n", 0, match.start(kind))


def run(text, file="page", names=None):
    """Run all blocks of a page; how many there were."""
    names = {"__name__": "page"} if names is None else names
    count = 0
    for code, line in blocks(text):
        if not missing_libraries(code):
            run_block(code, names, file, line)
            count += 1
    return count


def run_block(code, names, file="page", line=0):
    lines = code.splitlines()
    for node in ast.parse(code).body:
        shown = SHOWN.match(lines[node.end_lineno - 1][node.end_col_offset :])
        ast.increment_lineno(node, line)
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), file, "eval"), names)
            if shown:
                assert repr(value) == shown[1], f"{file}:{node.lineno}: {ast.unparse(node)}"
        else:
            exec(compile(ast.Module([node], []), file, "exec"), names)


def missing_libraries(code):
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return [n for n in found if importlib.util.find_spec(n.split(".")[0]) is None]
