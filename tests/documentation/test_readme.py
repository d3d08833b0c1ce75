"""README is short, its code runs and gives what it shows, and its links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import page_blocks
import pytest
import scipy.optimize  # noqa: F401  (imported here, because it changes warning filters)

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
LINKS = sorted({*re.findall(r"\]\(([^):]+)\)", TEXT)})


def test_it_is_short():
    assert len(TEXT.splitlines()) < 150


def test_code_runs_and_fits():
    names = {"__name__": "page"}
    assert page_blocks.run(TEXT, "README.md", names) == 1
    np.testing.assert_allclose(names["fit"].x["height"], 2.0, rtol=1e-3)
    assert names["slope"].keys() == {"height", "rate"}


def test_links_are_found():
    assert len(LINKS) > 15


@pytest.mark.parametrize("link", LINKS)
def test_link_leads_to_a_file(link):
    assert (ROOT / link).is_file()


@pytest.mark.parametrize("command", re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
def test_command_is_a_target(command):
    assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
