"""The page of requirements: ids and ranges, citations, what is accounted for, and what makes the check fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from scripts.requirements import Book, citations, compact, expand, main, problems, render, tidied

FAMILIES = {
    "Queue": {"AR-001": "first", "AR-002": "second", "AR-003": "third"},
    "Field": {"RA-01": "a date | is dropped"},
}
SHOWN = {name: ["test_all.py"] for name in ("AR-001", "AR-002", "AR-003", "RA-01")}


def without(*names):
    return {name: files for name, files in SHOWN.items() if name not in names}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("AR-001", ["AR-001"]),
        ("RA-01", ["RA-01"]),
        ("CP-009..011", ["CP-009", "CP-010", "CP-011"]),
        ("TO-03..04", ["TO-03", "TO-04"]),
    ],
)
def test_a_range_names_every_id_in_it(text, ids):
    assert expand(text) == ids


@given(st.sets(st.integers(1, 99)))
def test_compact_is_the_inverse_of_expand(numbers):
    ids = [f"NP-{n:03}" for n in sorted(numbers)]
    assert [name for spec in compact(ids) for name in expand(spec)] == ids


def test_families_and_widths_are_never_joined():
    assert compact(["CP-01", "CP-002", "PF-003"]) == ["CP-01", "CP-002", "PF-003"]


def test_only_docstrings_of_tests_cite(tmp_path):
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_one.py").write_text(
        '"""AR-009: a module cites nothing."""\n'
        'def test_a():\n    """AR-001, CP-010..011: claim."""\n    x = "AR-008"\n'
        'async def test_b():\n    """AR-001 again."""\n'
        'def helper():\n    """AR-007: no test."""\n'
    )
    (tmp_path / "helper.py").write_text('def test_c():\n    """AR-006: no test file."""\n')
    file = "unit/test_one.py"
    assert citations(tmp_path) == {"AR-001": [file, file], "CP-010": [file], "CP-011": [file]}


def test_the_tests_of_a_suite_cite_too_whatever_their_files_are_called(tmp_path):
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "life.py").write_text(
        'class Life:\n    def test_a(self):\n        """AR-001: claim."""\n    def helper(self):\n        """AR-002"""\n'
    )
    assert citations(tmp_path / "none", tmp_path / "suite") == {"AR-001": ["suite/life.py"]}


@pytest.mark.parametrize(
    ("book", "message"),
    [
        (Book(families=FAMILIES, cited=without("AR-002", "AR-003")), "AR-002..003: no test cites it"),
        (
            Book(families=FAMILIES, cited=SHOWN, open={"AR-002": "client"}),
            "AR-002: listed open but cited by a test",
        ),
        (
            Book(families=FAMILIES, cited=without("RA-01"), open={"RA-01": "x"}, different={"RA-01": "y"}),
            "RA-01: listed both",
        ),
        (
            Book(families=FAMILIES, cited=SHOWN, open={"AR-004": "client"}),
            "AR-004: listed in docs/open.toml but no such",
        ),
        (Book(families=FAMILIES, cited={**SHOWN, "RA-09": ["test_x.py"]}), "RA-09: cited by test_x.py but no such"),
    ],
)
def test_each_way_of_being_unaccounted_for_is_one_problem(book, message):
    [problem] = problems(book)
    assert pytest.raises(AssertionError, match=message).matches(AssertionError(problem))


@pytest.mark.parametrize(
    "book",
    [
        Book(families=FAMILIES, cited=SHOWN),
        Book(families=FAMILIES, cited=without("RA-01"), open={"RA-01": "client"}),
        Book(families=FAMILIES, cited=SHOWN, different={"AR-002": "shown and explained"}),
        Book(families=FAMILIES, cited={**SHOWN, "QQ-11": ["test_x.py"]}),
    ],
)
def test_ids_that_are_shown_open_or_explained_are_no_problem(book):
    assert problems(book) == []


def test_the_page_states_each_claim_its_tests_and_its_state():
    cited = {"AR-001": ["a/test_x.py", "a/test_x.py", "b/test_y.py"]}
    page = render(
        Book(families=FAMILIES, cited=cited, open={"AR-002": "client", "RA-01": "control"}, different={"AR-003": "why"})
    )
    assert "4 claims: 1 shown by tests, 2 open, 1 of them client, 1 of them control; 1 answered differently" in page
    assert "| AR-001 | first | 3: a/test_x.py, b/test_y.py | shown |" in page
    assert "| AR-002 | second |  | open (client) |" in page
    assert "| AR-003 | third |  | different: why |" in page
    assert "| RA-01 | a date \\| is dropped |  | open (control) |" in page


def test_tidying_drops_what_tests_show_and_keeps_the_reasons():
    book = Book(
        families=FAMILIES,
        cited={"AR-002": ["t"]},
        open={"AR-001": "a", "AR-002": "a", "AR-003": "a"},
        different={"RA-01": 'so "so"'},
    )
    assert tidied(book).split("\n")[1:5] == ["[open]", "a = [", '    "AR-001",', '    "AR-003",']
    assert 'RA-01 = "so \\"so\\""' in tidied(book)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs/requirements.toml").write_text(
        '[AR]\ntitle = "Queue"\n[AR.claims]\nAR-001 = "first"\nAR-002 = "second"\n'
    )
    (tmp_path / "docs/open.toml").write_text('[open]\nlater = ["AR-001..002"]\n[different]\n')
    return tmp_path


def test_the_check_fails_until_the_page_is_written_and_again_when_a_claim_changes(project):
    assert main(["--check"], project) == 1
    assert main([], project) == 0
    assert main(["--check"], project) == 0
    with (project / "docs/requirements.toml").open("a") as claims:
        claims.write('AR-003 = "third"\n')
    assert main(["--check"], project) == 1


def test_tidy_settles_what_a_new_test_shows(project):
    (project / "tests/test_a.py").write_text('def test_it():\n    """AR-001: claim."""\n')
    assert main([], project) == 1
    assert main(["--tidy"], project) == 0
    assert '"AR-002",' in (project / "docs/open.toml").read_text()
    assert main(["--check"], project) == 0
