"""The benchmarks' report is written from stored results, and a check compares ratios."""

import json
from pathlib import Path

import pytest

import tracker

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def entry(case, library, minimum, *, figure="call", unit="us", size=None, headline=True):
    return {
        "case": case, "group": "first calls" if figure != "call" else "arrays", "size": size,
        "headline": headline, "library": library, "figure": figure, "unit": unit,
        "median": 2 * minimum, "minimum": minimum, "runs": 3,
    }  # fmt: skip


def made_up(*figures, **given):
    return {
        "machine": {"processor": "an abacus", "cores": 2, "system": "Linux"},
        "versions": {"Python": "3.11", "jax": "0.4"},
        "absent": ["torch"],
        "threads": 2,
        "date": "2026-01-02T03:04+00:00",
        "load": 0.25,
        "quick": False,
        "failures": [{"case": "long", "library": "jax", "reason": "took more than 60 s"}],
        "figures": list(figures),
        **given,
    }


RESULTS = made_up(
    entry("sum, n=10", "numpy", 4.0, size=10),
    entry("sum, n=10", "tracker", 1.0, size=10),
    entry("sum, n=10", "jax", 8.0, size=10),
    entry("sum, n=1000", "numpy", 400.0, size=1000),
    entry("sum, n=1000", "tracker", 900.0, size=1000, headline=False),
    entry("sum, n=1000", "jax", 300.0, size=1000),
    entry("long", "numpy", 100.0),
    entry("long", "tracker", 5.0, figure="first result", unit="ms", size=100),
)


def test_report_is_written_from_a_file(benchmarks, tmp_path):
    import report

    folder = tmp_path / report.PAGE.parent
    folder.mkdir(parents=True)
    begin, end = report.MARKERS
    (tmp_path / "README.md").write_text(f"before\n{begin}old\n{end}\nafter\n")
    stored = tmp_path / "results.json"
    stored.write_text(json.dumps(RESULTS))
    report.write(json.loads(stored.read_text()), tmp_path)

    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith(f"before\n{begin}![time in units of tracker's](docs/")
    assert "\n2026-01-02: an abacus, 2 cores" in readme
    assert readme.endswith(f"{end}\nafter\n") and "old" not in readme
    assert "| what | tracker | jax | NumPy, value only |" in readme
    assert "| sum, n=10 | 2 us | 16 us | 8 us |" in readme
    assert "sum, n=1000" not in readme and "long" not in readme

    page = (tmp_path / report.PAGE).read_text()
    assert "| sum, n=1000 | 1.8 ms (900 us) | 600 us (300 us) | 800 us (400 us) |" in page
    assert "jax is faster (or smaller) by more than 5% in 1 of 2." in page
    assert "| sum, n=1000 | jax | 3 |" in page
    assert "Not installed, and left out: torch." in page
    assert "- long, jax: took more than 60 s" in page
    for name in ("speed.svg", "time_by_size.svg", "first_call.svg"):
        assert f"]({name})" in page
        assert "</svg>" in (folder / name).read_text()


def test_pages_show_the_stored_results(benchmarks):
    import report

    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    readme = (ROOT / "README.md").read_text()
    assert report.with_block(readme, report.readme_block(results)) == readme
    assert report.page(results) == (ROOT / report.PAGE).read_text()


def test_results_say_what_they_were_measured_on(benchmarks):
    from run import environment

    found = environment()
    assert found["versions"]["tracker"] == tracker.__version__
    assert found["machine"]["cores"] >= 1


def test_results_without_peers_say_so(benchmarks):
    import report

    alone = made_up(entry("sum", "numpy", 1.0), entry("sum", "tracker", 2.0))
    assert "No peer was installed" in report.page(alone)


def test_check_compares_in_units_of_numpy(benchmarks, capsys):
    import check

    def run(ours, numpy, first):
        return made_up(
            entry("sum", "numpy", numpy),
            entry("sum", "numpy", numpy, figure="import", unit="ms"),
            entry("sum", "tracker", ours),
            entry("sum", "tracker", first, figure="first result", unit="ms"),
        )

    kept = run(1.0, 4.0, 20.0)
    assert check.ratios(kept) == {("sum", "call"): 0.25, ("sum", "first result"): 5.0}
    assert check.report(check.compared(kept, run(3.0, 12.0, 60.0))) == 0  # a slower machine
    assert "2 figures compared, 0 slower" in capsys.readouterr().out
    assert check.report(check.compared(kept, run(1.0, 4.0, 20.0 * 1.6))) == 1
    assert "slower: sum, first result: 5 -> 8 of NumPy's" in capsys.readouterr().out
    twice = check.better(
        check.compared(kept, run(2.0, 4.0, 20.0)), check.compared(kept, run(1.1, 4.0, 50.0))
    )
    assert check.report(twice) == 0  # each figure at its better time
    assert check.report(check.compared(kept, run(0.5, 4.0, 20.0))) == 0
    assert "faster: sum, call" in capsys.readouterr().out
    other = made_up(entry("other", "numpy", 1.0), entry("other", "tracker", 1.0))
    assert check.report(check.compared(kept, other)) == 2  # nothing to compare


@pytest.mark.parametrize("case", [
    "rosenbrock, n=10", "tanh and exp of vectors, n=100", "differences of 1000 x 1000 places",
    "logistic regression, 10000 x 50", "training step of a network, batch of 64",
    "Python loop, 1000 steps", "Python loop that keeps its states, 1000 steps",
])  # fmt: skip
def test_derivative_written_by_hand_is_ours(benchmarks, case):
    import libraries
    import measure

    if not libraries.is_installed("C++"):
        pytest.skip("no C++ compiler here")
    options = {"repeats": 1, "seconds": 0.0}
    by_hand = measure.measured(case, libraries.LIBRARIES["C++"](), options)
    eager = libraries.LIBRARIES["tracker"]()._replace(compile=lambda f: f)
    program = measure.CASES[case].program(eager)
    f, arguments, argnums = program
    found = (f if argnums is None else eager.value_and_grad(f, argnums))(*arguments)
    assert by_hand["summary"] == pytest.approx(measure.summary(found), rel=1e-9)


def test_case_is_measured(benchmarks):
    import measure
    from libraries import LIBRARIES

    options = {"repeats": 1, "seconds": 0.0}
    ours = measure.measured("rosenbrock, n=2", LIBRARIES["tracker"](), options)
    plain = measure.measured("rosenbrock, n=2", LIBRARIES["numpy"](), options)
    assert ours["figures"]["call"][1] == plain["figures"]["call"][1] == "us"
    assert ours["summary"][0] == pytest.approx(plain["summary"][0])
