"""The programs of the how-to page that link exported functions: CMake, rustc, cargo."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exported_library import needs_cc

from tracker import export, value_and_grad

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "export.md"
X = np.array([0.1, 0.2, 0.4, 0.8])
SCRIPT = """import sys
sys.path[:0] = {paths}
import numpy as np
import tracker
{energy}
tracker.export(energy, np.zeros(4), 1.0, path="energy")
"""


def block(language, has):
    """The text of a block of the page."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (only,) = [text for text in found if has in text]
    return only


def source(start, end):
    """A part of the page."""
    text = PAGE.read_text()
    first = text.index(start)
    return text[first : text.index(end, first)]


ENERGY = source("def energy", "\ntracker.export")


def energy(x, stiffness):
    space = {"np": np}
    exec(ENERGY, space)
    return space["energy"](x, stiffness)


def run(*command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_printed(text):
    value, (slope, _) = value_and_grad(energy, argnums=(0, 1))(X, 2.0)
    np.testing.assert_allclose([float(n) for n in text.split()], [value, slope[0]], rtol=1e-9)


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"no {tool} here")


@needs_cc
@needs("cmake")
def test_cmake_exports_and_links(tmp_path):
    paths = [str(PAGE.parents[3]), *filter(None, sys.path)]
    (tmp_path / "export_energy.py").write_text(SCRIPT.format(paths=paths, energy=ENERGY))
    (tmp_path / "CMakeLists.txt").write_text(block("cmake", "add_executable"))
    (tmp_path / "main.c").write_text(source("#include <stdio.h>", '"""'))
    (tmp_path / "main.c").write_text((tmp_path / "main.c").read_text().replace("\\\\n", "\\n"))
    run("cmake", "-S.", "-Bbuild", f"-DPython_EXECUTABLE={sys.executable}", folder=tmp_path)
    run("cmake", "--build", "build", folder=tmp_path)
    assert_printed(run(tmp_path / "build" / "main", folder=tmp_path))


@needs_cc
@needs("rustc")
def test_rustc_links(tmp_path):
    export(energy, np.zeros(4), 1.0, path=tmp_path / "energy")
    (tmp_path / "main.rs").write_text(block("rust", "energy_gradient"))
    command = source("    rustc main.rs", "\n").split()
    run(*command, folder=tmp_path)
    assert_printed(run(tmp_path / "main", folder=tmp_path))


@needs_cc
@needs("cargo")
def test_cargo_links(tmp_path):
    export(energy, np.zeros(4), 1.0, path=tmp_path / "energy")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text(block("rust", "energy_gradient"))
    (tmp_path / "build.rs").write_text(block("rust", "rustc-link-arg"))
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "main"\nversion = "0.1.0"\nedition = "2021"\n'
    )
    run("cargo", "build", "--offline", "--quiet", folder=tmp_path)
    assert_printed(run(tmp_path / "target" / "debug" / "main", folder=tmp_path))


@needs_cc
def test_complex_numbers_in_c_and_in_cpp(tmp_path):
    """The header reads as C and as C++, whose complex numbers lie alike."""

    def spin(z, w):
        return z * w

    z, w = np.array([1 + 2j, -3j]), 0.5 - 1j
    export(spin, z, w, path=tmp_path / "spin")
    programs = {
        "cc": """#include "spin.h"
#include <complex.h>
#include <stdio.h>
int main(void) {
    double complex z[2] = {1 + 2 * I, -3 * I}, w = 0.5 - I, value[2];
    if (spin(z, &w, value)) return 1;
    for (int i = 0; i < 2; ++i) printf("%.17g %.17g ", creal(value[i]), cimag(value[i]));
    return 0;
}""",
        "c++": """#include "spin.h"
#include <cstdio>
int main() {
    std::complex<double> z[2] = {{1, 2}, {0, -3}}, w(0.5, -1), value[2];
    if (spin(z, &w, value)) return 1;
    for (auto v : value) std::printf("%.17g %.17g ", v.real(), v.imag());
    return 0;
}""",
    }
    for compiler, text in programs.items():
        if shutil.which(compiler) is None:
            continue
        main = tmp_path / ("main.c" if compiler == "cc" else "main.cpp")
        main.write_text(text)
        run(compiler, "-Wall", "-Werror", main.name, "spin.o", "-lm", "-o", "main", folder=tmp_path)
        printed = [float(n) for n in run(tmp_path / "main", folder=tmp_path).split()]
        np.testing.assert_allclose(printed, (z * w).view(float), rtol=1e-15)
