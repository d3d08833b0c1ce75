"""The index of errors and that of environment variables are complete and true."""

import re
from pathlib import Path

import tracker
from tracker.config import Settings
from tracker.support.structs import field_names

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def table_rows(page, columns):
    """The first cells of the rows of a page's tables."""
    for line in (REFERENCE / page).read_text().splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")][:columns]


def test_every_error_has_a_row_with_the_builtins_that_it_is():
    errors = {
        name: thing
        for name in tracker.__all__
        if isinstance(thing := getattr(tracker, name), type) and issubclass(thing, Exception)
    }
    rows = {
        name.strip("`"): re.findall(r"`(\w+)`", bases) for name, bases in table_rows("errors.md", 2)
    }
    assert rows.keys() == errors.keys() - {"TrackerError"}
    for name, bases in rows.items():
        builtin = [
            base.__name__ for base in errors[name].__bases__ if base.__module__ == "builtins"
        ]
        assert bases == builtin, name


def test_every_environment_variable_has_a_row():
    sources = (path.read_text() for path in (ROOT / "tracker").rglob("*.py"))
    settings = {f"TRACKER_{name.upper()}" for name in field_names(Settings)}
    read = {name for text in sources for name in re.findall(r'"(TRACKER_[A-Z_]+)"', text)}
    rows = {name.strip("`") for (name,) in table_rows("environment.md", 1)}
    assert rows == settings | read
